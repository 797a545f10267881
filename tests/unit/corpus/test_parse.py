# ruff: noqa: E501 (inputs read better whole)
import importlib.util
import io
import json
import logging
import pickle
from typing import Any

import pyarrow as pa
import pytest
from reportlab.pdfgen.canvas import Canvas

from srrag.core.schema import DOCUMENTS
from srrag.core.step import Place
from srrag.corpus import pdf_lines
from srrag.corpus.grade import grade_document
from srrag.corpus.parse import ParseDocuments
from srrag.corpus.parse_pdf import join_lines, printed_doi, printed_year, to_markdown
from srrag.corpus.pdf_lines import PdfLine, in_reading_order
from srrag.corpus.record import RawRecord, raw_table, refusal
from tests.papers import empty_zip, paper_pdf, recovered, scanned_pdf, word_file


def parse(*records: RawRecord) -> list[dict[str, Any]]:
    table = ParseDocuments().open(Place())(raw_table(list(records)))
    assert table.schema.equals(DOCUMENTS)
    return [{**row, "metadata": json.loads(row["metadata"])} for row in table.to_pylist()]


def one(format: str, body: str | bytes) -> dict[str, Any]:
    raw = body if isinstance(body, bytes) else body.encode()
    (row,) = parse(RawRecord("file", "id", format, raw))
    return row


def reason(format: str, body: str | bytes) -> str:
    reject = one(format, body)["reject"]
    assert reject["stage"] == "parse"
    assert reject["detail"].startswith("file: ")
    assert "\n" not in reject["detail"]
    return str(reject["reason"])


# --- the step ------------------------------------------------------------------------------


def test_one_row_in_one_row_out_and_rejects_pass_through() -> None:
    first = RawRecord("a.txt", "a", "text", b"Knee pain.")
    refused = refusal("b.doc", "", "unsupported_format", "b.doc: suffix")
    rows = parse(first, refused, RawRecord("c", "c", "odd", b"x"))
    assert rows[0]["doc_id"] == first.raw_id
    assert rows[0]["text"] == "Knee pain."
    assert rows[1]["reject"] == {
        "stage": "read",
        "reason": "unsupported_format",
        "detail": "b.doc: suffix",
    }
    assert rows[2]["reject"]["reason"] == "unsupported_format"


def test_batching_changes_nothing_and_the_step_pickles() -> None:
    records = [RawRecord(str(n), str(n), "text", f"text {n}".encode()) for n in range(4)]
    run = pickle.loads(pickle.dumps(ParseDocuments())).open(Place())
    whole = run(raw_table(records))
    halves = pa.concat_tables([run(raw_table(records[:1])), run(raw_table(records[1:]))])
    assert whole.equals(halves)
    assert run(raw_table([])).schema.equals(DOCUMENTS)


# --- Markdown and text ---------------------------------------------------------------------


def test_markdown_front_matter_title_and_text() -> None:
    row = one(
        "markdown",
        "---\nid: x\ntitle: Heel pain\ngrade: a\nyear: 2021-05-01\npmid: 123\ncondition: php\n"
        "publication_type: Practice Guideline\nnested: {a: [1]}\n---\n# Heel pain\n\nRest 5mg &lt; 6.",
    )
    assert (row["title"], row["text"]) == ("Heel pain", "Rest 5 mg < 6.")
    assert (row["year"], row["pmid"], row["condition"]) == (2021, "123", "PHP")
    assert (row["grade"], row["grade_source"]) == ("", "")
    assert row["metadata"] == {
        "encoding": "utf-8",
        "grade": "a",
        "publication_types": ["Practice Guideline"],
    }


def test_a_leading_heading_is_the_title_and_a_trailer_only_says_where_it_is_from() -> None:
    row = one(
        "markdown",
        "# Does it work?\n\n## Results\n\nIt does.\n\n---\nPMID: 77\nYear: 2016\n"
        "MeSH: Humans; Adult\nEvidence grade: A\n",
    )
    assert (row["title"], row["text"]) == ("Does it work?", "## Results\n\nIt does.")
    assert (row["pmid"], row["year"]) == ("77", 2016)
    assert row["metadata"] == {"encoding": "utf-8", "mesh_in_text": ["Humans", "Adult"]}


def test_a_heading_other_than_the_given_title_stays() -> None:
    row = one("markdown", "---\ntitle: A\n---\n# B\n\nText")
    assert (row["title"], row["text"]) == ("A", "# B\n\nText")


def test_a_block_that_names_no_source_is_text() -> None:
    text = "It was tried.\n\n---\nConclusion: the drug did not reduce mortality\nDose: 5 mg"
    assert one("markdown", text)["text"] == text


def test_a_thematic_break_before_prose_is_no_trailer() -> None:
    row = one("markdown", "One.\n\n---\nNote: two.\nAnd three.")
    assert row["text"] == "One.\n\n---\nNote: two.\nAnd three."


@pytest.mark.parametrize(
    "title",
    [
        "A brace for sprain: a trial",
        "A brace: 12 weeks: a trial",
        '"A brace": a trial',
        "[A] brace: b",
    ],
)
def test_front_matter_that_is_no_yaml_keeps_title_and_year(title: str) -> None:
    for heading in ("", f"# {title}\n\n"):
        row = one("markdown", f"---\ntitle: {title}\nyear: 2019\n---\n{heading}Pain fell by 5.")
        assert (row["title"], row["year"]) == (title, 2019)
        assert row["text"] == "Pain fell by 5.", "the block is no evidence"


def test_front_matter_that_is_no_yaml_keeps_lists_comments_and_long_lines() -> None:
    row = one(
        "markdown",
        "---\n# made by hand\ntitle: A brace: a\n  trial in adults\npublication_type:\n- Review\n"
        "- Guideline: draft\nyear: 2019-05-01\npmid: 77\n---\n# Another heading\n\nText",
    )
    assert (row["title"], row["year"], row["pmid"]) == ("A brace: a trial in adults", 2019, "77")
    assert row["metadata"]["publication_types"] == ["Review", "Guideline: draft"]
    assert row["text"] == "# Another heading\n\nText"


def test_prose_between_two_breaks_is_text() -> None:
    body = "---\nPain was worse [see: below\nand so on.\n---\nBody"
    row = one("markdown", body)
    assert row["text"] == body
    assert row["metadata"]["front_matter_note"] == "broken YAML, read as text"


def test_broken_or_hostile_front_matter_does_nothing() -> None:
    row = one("markdown", "---\nkey: [\nyear: 2001\n---\nBody")
    assert (row["text"], row["year"]) == ("Body", 2001)
    tagged = one("markdown", "---\nx: !!python/object/apply:os.system ['true']\n---\nBody")
    assert tagged["text"] == "Body"
    aliases = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9))
    row = one("markdown", f"---\na0: &a0 [x, x, x]\n{aliases}\n---\nBody")
    assert row["text"] == "Body"
    assert len(json.dumps(row["metadata"])) < 1_000


def test_an_unknown_condition_is_left_out_and_noted() -> None:
    row = one("markdown", "---\ncondition: Broken heart\n---\nBody")
    assert row["condition"] == ""
    assert row["metadata"]["condition_note"] == "unknown condition 'Broken heart'"


@pytest.mark.parametrize(
    ("body", "text", "encoding"),
    [
        ("Ménière – 5 ± 2".encode(), "Ménière – 5 ± 2", "utf-8"),
        ("\ufeffMénière".encode(), "Ménière", "utf-8"),
        ("Ménière’s".encode("cp1252"), "Ménière’s", "cp1252"),
        ("Ménière".encode("utf-16"), "Ménière", "utf-16"),
        (
            "Ménière.\n".encode() + "Sjögren.".encode("cp1252"),
            "Ménière.\nSjögren.",
            "utf-8 and cp1252",
        ),
        (
            "Guillain-Barré syndrome isnâ€™t rare".encode(),
            "Guillain-Barré syndrome isn’t rare",
            "utf-8, garbled text repaired",
        ),
    ],
)
def test_encodings_are_found_and_named(body: bytes, text: str, encoding: str) -> None:
    row = one("text", body)
    assert (row["text"], row["metadata"]["encoding"]) == (text, encoding)


def test_a_foreign_encoding_is_not_passed_off_as_cp1252() -> None:
    text = "膝の痛みに対する運動療法の効果を調べた。対象は成人である。" * 8
    row = one("text", text.encode("shift_jis"))
    assert row["text"] == text
    assert row["metadata"]["encoding"] in ("cp932", "shift_jis", "shift_jis_2004", "shift_jisx0213")


@pytest.mark.parametrize("body", [b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", bytes(range(1, 32)) * 9])
def test_binary_in_a_text_file_is_refused(body: bytes) -> None:
    assert reason("text", body) == "binary"
    assert reason("markdown", body) == "binary"


@pytest.mark.parametrize(
    ("format", "body"),
    [
        ("text", ""),
        ("text", " \n\t\u200b"),
        ("markdown", "# Only a title"),
        ("html", "<html><body><nav>menu</nav></body></html>"),
        ("json", '{"title": "t"}'),
        ("json", '{"text": 5}'),
        ("beir", '{"_id": "1", "title": "t"}'),
        ("jats", "<article><front/></article>"),
        ("pubmed", "<PubmedArticle><PMID>1</PMID></PubmedArticle>"),
    ],
)
def test_documents_without_text_are_refused(format: str, body: str) -> None:
    assert reason(format, body) == "no_text"


# --- HTML ----------------------------------------------------------------------------------


def test_html_becomes_markdown_and_page_furniture_goes() -> None:
    row = one(
        "html",
        "<html><head><title>T | Site</title><meta name=citation_pmid content=42><script>x()</script>"
        "</head><body><nav>Home</nav><header>Logo</header><main><h1>Heel pain</h1><h2>Dose</h2>"
        "<p>Take&nbsp;5mg, p &lt; 0.05, &amp;lt; 10<sup>6</sup>.</p><ul><li>a<ul><li>b</li></ul></li>"
        "</ul><table><tr><th>x</th><th>y</th></tr><tr><td>1</td><td>2</td></tr></table></main>"
        "<footer>Imprint</footer></body></html>",
    )
    assert row["title"] == "Heel pain"
    assert row["pmid"] == "42"
    assert row["text"] == (
        "## Dose\n\nTake 5 mg, p < 0.05, &lt; 10^6.\n\n- a\n  - b\n\n"
        "| x | y |\n| --- | --- |\n| 1 | 2 |"
    )


def test_html_leaves_marks_of_citations_out_and_blocks_apart() -> None:
    row = one(
        "html",
        "<html><body><p>It fell to 5<sup><a href='#r3'>3,4</a></sup> of 10<sup>6</sup>"
        "<a href='#r7'><sup>7</sup></a>.</p><details><summary>Harms</summary>Rash</details>"
        "<center>One</center><address>Two</address></body></html>",
    )
    assert row["text"] == "It fell to 5 of 10^6.\n\nHarms\n\nRash\n\nOne\n\nTwo"


@pytest.mark.parametrize(
    ("html", "said"),
    [
        ("2×<math><semantics><msup><mn>10</mn><mn>6</mn></msup><annotation>10^{6}</annotation>"
         "</semantics></math> cells", "2 × 10^6 cells"),
        ("<i>10</i><sup>6</sup> cells", "10^6 cells"),
        ("Age was 65.<sup>12</sup> In 45%<sup>3</sup> it", "Age was 65.^12 In 45%^3 it"),
        ("10 <sup>9</sup>/L and 10<sup> 6</sup>/L", "10 ^9/L and 10^6/L"),
        ("of 20 <sup>131</sup>I scans", "of 20 131I scans"),
        ("2<math><mfrac><mn>1</mn><mn>2</mn></mfrac></math> tablets &lt; 3", "2 1/2 tablets < 3"),
        ("10<math><msup><mi></mi><mn>6</mn></msup></math>", "10^6"),
        ("<i>R</i><sup>2</sup> (<math></math>)", "R2 ()"),
    ],
)  # fmt: skip
def test_a_power_or_fraction_of_html_is_no_other_number(html: str, said: str) -> None:
    row = one("html", f"<html><body><p>We gave {html}.</p></body></html>")
    assert row["text"] == f"We gave {said}."


@pytest.mark.parametrize("tag", ["p", "div"])
def test_a_note_that_begins_with_a_hash_is_no_heading(tag: str) -> None:
    note = f"<h2>Results</h2><{tag}><sup>#</sup> P &lt; 0.05.</{tag}><{tag}>It fell.</{tag}>"
    row = one("html", f"<html><body>{note}</body></html>")
    assert row["text"] == "## Results\n\n#P < 0.05.\n\nIt fell."
    _, text = to_markdown([lines_of(("# P < 0.05.", 10), ("It fell in those who walked.", 10))])
    assert text.startswith("#P < 0.05.")


def test_html_tells_its_doi_and_year_by_the_names_of_scholar_or_of_dublin_core() -> None:
    other = (
        "<meta name='DC.Identifier' content='pii-7'><meta name=prism.doi content='doi:10.9999/p'>"
        "<meta name=DC.Date content='2019-05-01'>"
    )
    own = "<meta name=citation_doi content='10.9999/c'><meta name=citation_date content='2018'>"
    for head, told in ((other, ("10.9999/p", 2019)), (own + other, ("10.9999/c", 2018)),
                       (other + own, ("10.9999/c", 2018))):  # fmt: skip
        row = one("html", f"<html><head>{head}</head><body><p>Pain fell.</p></body></html>")
        assert (row["metadata"]["doi"], row["year"]) == told


def test_html_declares_its_encoding() -> None:
    body = "<html><head><meta charset='iso-8859-2'></head><body>Łódź</body></html>"
    row = one("html", body.encode("iso-8859-2"))
    assert (row["text"], row["metadata"]["encoding"]) == ("Łódź", "iso8859-2")


def test_absurdly_nested_html_is_refused() -> None:
    assert reason("html", "<div>" * 100_000 + "x") == "too_deep"


# --- XML -----------------------------------------------------------------------------------

JATS = """<?xml version="1.0"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS 1.2//EN" "http://localhost:9/none.dtd">
<article article-type="research-article" xmlns:xlink="http://www.w3.org/1999/xlink"><front>
<journal-meta><journal-title-group><journal-title>J Tendon</journal-title></journal-title-group>
</journal-meta><article-meta><article-id pub-id-type="pmid">99</article-id>
<article-id pub-id-type="pmc">PMC9</article-id>
<article-categories><subj-group><subject>Systematic review</subject></subj-group></article-categories>
<title-group><article-title>Loading of <italic>tendons</italic></article-title></title-group>
<pub-date><year>2019</year></pub-date><pub-date><year>2018</year></pub-date>
<abstract><title>Abstract</title><sec><title>Methods</title><p>We searched<xref ref-type="bibr">1</xref>
MEDLINE.</p></sec></abstract></article-meta></front>
<body><sec><title>Results</title><p>Pain fell [<xref ref-type="bibr">2</xref>, <xref
ref-type="bibr">3</xref>] by 10<sup>2</sup>&eacute; units<sup><xref ref-type="bibr">4</xref></sup>.</p>
<sec><title>Dose</title><list><list-item><p>one</p></list-item><list-item><p>two</p></list-item></list>
<table-wrap><label>Table 1</label><caption><p>Doses</p></caption><table><tr><th>a</th><th>b</th></tr>
<tr><td>1</td><td>2</td></tr></table></table-wrap></sec></sec></body>
<back><ref-list><ref><mixed-citation>Smith 2001</mixed-citation></ref></ref-list></back></article>"""


def test_jats_sections_lists_and_tables() -> None:
    row = one("jats", JATS)
    assert row["title"] == "Loading of tendons"
    assert row["text"] == (
        "## Abstract\n\n### Methods\n\nWe searched MEDLINE.\n\n## Results\n\nPain fell by 10^2é units."
        "\n\n### Dose\n\n- one\n- two\n\nTable 1 Doses\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"
    )
    assert (row["pmid"], row["year"]) == ("99", 2018)
    assert row["metadata"]["publication_types"] == ["Systematic Review"]
    assert row["metadata"]["pmcid"] == "PMC9"


@pytest.mark.parametrize("format", ["jats", "pubmed"])
def test_broken_and_hostile_xml_is_refused(format: str) -> None:
    assert reason(format, "<article><p>never closed") == "broken_xml"
    assert reason(format, b"") == "broken_xml"
    assert reason(format, b"<article>caf\xe9</article>") == "broken_xml"
    assert reason(format, "<a>" * 5_000 + "</a>" * 5_000) == "broken_xml"
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 9))
    bomb = f'<!DOCTYPE a [<!ENTITY l0 "ha">{laughs}]><article>&l8;</article>'
    assert reason(format, bomb) in ("unsafe_xml", "broken_xml")  # libxml2 may stop it first
    file = '<!DOCTYPE a [<!ENTITY f SYSTEM "file:///etc/passwd">]><article>&f;</article>'
    assert reason(format, file) == "unsafe_xml"


def test_xml_that_is_no_article_is_refused() -> None:
    assert reason("jats", "<html/>") == "not_jats"


PUBMED = """<PubmedArticle><MedlineCitation Status="MEDLINE"><PMID Version="1">31000001</PMID>
<Article><Journal><JournalIssue><PubDate><MedlineDate>2018 Nov-Dec</MedlineDate></PubDate>
</JournalIssue><Title>J Orthop</Title></Journal><ArticleTitle>[Nordic exercise &amp; hamstrings].</ArticleTitle>
<Abstract><AbstractText Label="BACKGROUND" NlmCategory="BACKGROUND">Strains recur.</AbstractText>
<AbstractText Label="METHODS">Players did 3x10 at 10<sup>6</sup> with CO<sub>2</sub> &lt; 5mg.</AbstractText>
<AbstractText Label="UNLABELLED">Done.</AbstractText>
<CopyrightInformation>Copyright 2018 Elsevier.</CopyrightInformation></Abstract>
<PublicationTypeList><PublicationType UI="D016449">Randomized Controlled Trial</PublicationType>
</PublicationTypeList></Article><MeshHeadingList><MeshHeading><DescriptorName UI="D006801">Humans
</DescriptorName></MeshHeading><MeshHeading><DescriptorName>Athletic Injuries</DescriptorName>
<QualifierName>therapy</QualifierName></MeshHeading></MeshHeadingList></MedlineCitation>
<PubmedData><ArticleIdList><ArticleId IdType="doi">10.1000/x</ArticleId></ArticleIdList></PubmedData>
</PubmedArticle>"""


def test_a_record_with_an_abstract_of_others_alone_is_read() -> None:
    other = "<OtherAbstract Language='{}'><AbstractText>{}</AbstractText></OtherAbstract>"
    body = "".join(other.format(*each) for each in (("fre", "La douleur."), ("eng", "Pain fell.")))
    assert (
        one("pubmed", f"<PubmedArticle><PMID>1</PMID>{body}</PubmedArticle>")["text"]
        == "Pain fell."
    )


def test_pubmed_article() -> None:
    row = one("pubmed", PUBMED)
    assert row["title"] == "Nordic exercise & hamstrings"
    assert row["text"] == (
        "## Background\n\nStrains recur.\n\n## Methods\n\n"
        "Players did 3 × 10 at 10^6 with CO2 < 5 mg.\n\nDone."
    )
    assert (row["pmid"], row["year"]) == ("31000001", 2018)
    assert row["metadata"] == {
        "doi": "10.1000/x",
        "encoding": "utf-8",
        "journal": "J Orthop",
        "mesh": ["Humans", "Athletic Injuries"],
        "publication_types": ["Randomized Controlled Trial"],
    }


# --- JSON and BEIR -------------------------------------------------------------------------


def test_json_sections_become_headings() -> None:
    body = {
        "title": "T",
        "text": [{"heading": "Methods", "text": "5mg &lt; 6"}, "tail", {"text": "end"}],
        "mesh": ["Humans"],
        "grade": "Z",
    }
    row = one("json", json.dumps(body))
    assert row["title"] == "T"
    assert row["text"] == "## Methods\n\n5 mg < 6\n\ntail\n\nend"
    assert row["metadata"] == {"encoding": "utf-8", "grade": "Z", "mesh": ["Humans"]}


def test_front_matter_inside_a_json_text_sets_nothing() -> None:
    row = one("json", json.dumps({"text": "---\ngrade: A\n---\nBody"}))
    assert "grade" not in row["metadata"]


def test_beir_keeps_the_title_out_of_the_text() -> None:
    body = {"_id": "1", "title": "Q?", "text": "5mg  &lt;\n6", "metadata": {"pmid": "5", "x": {}}}
    row = one("beir", json.dumps(body))
    assert (row["title"], row["text"], row["pmid"]) == ("Q?", "5mg < 6", "5")


# --- PDF -----------------------------------------------------------------------------------


def test_a_pdf_must_begin_as_one() -> None:
    assert reason("pdf", b"no pdf") == "broken_pdf"


@pytest.mark.skipif(importlib.util.find_spec("docling") is not None, reason="Docling is installed")
def test_without_docling_a_pdf_says_what_to_install() -> None:
    with pytest.raises(ValueError, match=r"pip install 'srrag\[pdf\]'"):
        ParseDocuments(pdf="docling").open(Place())


def test_there_is_no_other_way_to_read_a_pdf() -> None:
    with pytest.raises(ValueError, match="pdf=ocr: text or docling"):
        ParseDocuments(pdf="ocr")


@pytest.mark.parametrize("columns", [1, 2])
def test_a_paper_in_columns_comes_out_as_it_reads(columns: int) -> None:
    words = "Multidisciplinary rehabilitation reduced disability after vertebral fracture "
    sections = [
        (name, " ".join(f"{words}in group {name} {n} (P = 0.0{n}). It lasted." for n in range(60)))
        for name in ("Background", "Methods", "Results", "Conclusions")
    ]
    row = one(
        "pdf", paper_pdf("Exercise after fracture: a randomised trial", sections, columns=columns)
    )
    assert row["title"] == "Exercise after fracture: a randomised trial"
    assert [line[3:] for line in row["text"].split("\n") if line.startswith("## ")] == [
        name for name, _ in sections
    ]
    source = " ".join(f"{name} {text}" for name, text in sections)
    assert recovered(source, row["text"].replace("## ", "")) > 0.99
    assert "Journal of Invented Trials" not in row["text"]


def lines_of(*told: tuple[str, float]) -> list[PdfLine]:
    """Lines below each other, each with its size of type."""
    return [
        PdfLine(text, 50.0, 50.0 + 5 * len(text), 700.0 - 20 * n, 712.0 - 20 * n, size, False)
        for n, (text, size) in enumerate(told)
    ]


@pytest.mark.parametrize(
    "logo", ["Trials", "Critical Care Critical Care", "The Journal of Knees and Hips"]
)
def test_neither_a_journals_name_nor_a_label_is_the_title_of_a_pdf(logo: str) -> None:
    title = "Inhaled PGE1 in neonates: two pilot trials"
    page = lines_of(
        (logo, 40), ("R E S E A R C H A R T I C L E", 18), (title, 18), ("Text. " * 9, 10)
    )
    assert to_markdown([page])[0] == title
    assert "R C H" not in to_markdown([page])[1]
    cited = ("Demo Medicine", 40), ("Demo Medicine 2018; 7(3):794–800", 8)
    assert to_markdown([lines_of(*cited, (title, 18), ("Text. " * 9, 10))])[0] == title
    long = lines_of(
        *((f"a protocol of a long name {n}", 24) for n in range(8)), ("Text. " * 99, 10)
    )
    assert to_markdown([long])[0].endswith("name 7"), "protocols have long titles"
    alone = lines_of(("Hypertension", 40), ("We treated them for long. " * 9, 10))
    assert to_markdown([alone])[0] == "Hypertension", "a title of one word, where there is no other"


def test_a_guideline_that_says_so_below_its_title_has_it_in_its_title() -> None:
    page = ("Heel pain in adults", 33), ("NICE guideline", 14), ("Text. " * 9, 10)
    title = to_markdown([lines_of(*page)])[0]
    assert title == "Heel pain in adults: NICE guideline"
    assert grade_document(title, "", None, [], []).grade == "A"
    small = ("Heel pain in adults", 33), ("Text. " * 9, 10), ("Our guideline", 10)
    assert to_markdown([lines_of(*small)])[0] == "Heel pain in adults"


@pytest.mark.parametrize(
    ("line", "year"),
    [
        ("Trials 2015, 16:2", 2015),
        ("Légaré et al. Trials (2015) 16:50 DOI 10.1186/s13063-015-0567-7", 2015),
        ("© 2014 Dodd et al.; licensee BioMed Central Ltd.", 2014),
        ("Received 26 September 2013; Accepted 18 March 2014; Published 8 May 2014", 2014),
        ("Volume 2014, Article ID 801626, 8 pages", 2014),
        ("Demonstrations 2017 December, 45(4): 401-408", 2017),
        ("The Open Demo Journal, 2016, 10, (Suppl-1, M9) 214-226", 2016),
        ("J. Demo. Nutr., 46, 52–59, January 2010", 2010),
        ("Received: 12-06-2015, Accepted: 13-10-2015, Published online: 03-12-2016", 2016),
        ("ª The Author(s) 2018", 2018),
        ("Published: 28 August 2024; © Demo Institute 2026", 2024),
        ("We followed 2015 people from 2009 to 2011; a guideline published in 1998 said so", 0),
        ("between 2009 and 2010, 120: mg", 0),
    ],
)
def test_a_pdf_tells_its_year_where_its_first_page_prints_it(line: str, year: int) -> None:
    below = ("References", 10), ("1. Author A. A study. J Demo 2019;1:1-10.", 8)
    assert printed_year(lines_of((line, 8), ("Text. " * 9, 10), *below)) == year


@pytest.mark.parametrize(
    ("lines", "doi"),
    [
        (["BMJ 2015;350:h21 (doi:10.9999/demo.h21)"], "10.9999/demo.h21"),
        (["https://doi.org/10.9999/", "journal.demo.0115884"], "10.9999/journal.demo.0115884"),
        (["doi:10.9999/journal.", "demo.0115884 Editor"], "10.9999/journal.demo.0115884"),
        (["doi:10.9999/demo.", "2019 was a year"], "10.9999/demo"),
        (["doi: 10.9999/", "Introduction"], ""),
        (["Registered: doi 10.17605/OSF.IO/9ZW34.", "doi:10.9999/own"], "10.9999/own"),
        (["No DOI at all."], ""),
    ],
)
def test_a_doi_is_printed_above_the_references(lines: list[str], doi: str) -> None:
    first = lines_of(*((line, 8.0) for line in lines))
    second = lines_of(("References", 10), ("1. A study. J Demo 2019. doi:10.9999/other", 8))
    assert printed_doi([first, second]) == printed_doi([first + second]) == doi


def test_what_a_pdf_says_of_itself_goes_before_what_is_printed() -> None:
    printed = "Data stand at https://doi.org/10.9999/data. We gave drug Q to adults with gout."
    for subject, doi in (("J Demo, 7. doi:10.9999/own", "10.9999/own"), ("", "10.9999/data")):
        file = io.BytesIO()
        canvas = Canvas(file)
        canvas.setSubject(subject)
        canvas.drawString(40, 700, printed)
        canvas.save()
        assert one("pdf", file.getvalue())["metadata"]["doi"] == doi
    assert not [*pdf_lines.properties(file.getvalue()[:200])], "a damaged file says nothing"


def test_what_the_parser_of_pdf_warns_of_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("pdfminer.pdfinterp").warning("Cannot set non-stroke color")
    one("pdf", paper_pdf("A title", [("Results", "Pain fell. " * 40)]))
    assert not caplog.records


def test_a_heading_of_two_lines_in_a_pdf_is_one() -> None:
    long = "Steps to administering a sublingual or buccal medication at home or in hospital"
    sections = [(long, "Assemble the cup. " * 40), ("Methods", "We asked. " * 40)]
    row = one("pdf", paper_pdf("A title", [*sections, ("Storage", "Cool. " * 40)], columns=2))
    headings = [line for line in row["text"].splitlines() if line.startswith("#")]
    assert headings == [f"## {long}", "## Methods", "## Storage"]


def test_a_short_last_column_stays_apart() -> None:
    text = "Sentences of the left column end here. " * 90
    row = one("pdf", paper_pdf("A title", [("Results", text)], columns=2))
    assert recovered(text, row["text"].removeprefix("## Results")) > 0.99


def test_a_sidebar_stands_apart_and_three_columns_read_in_order() -> None:
    """An address column in smaller type, then two columns, as on a journal's first page."""
    side = [_line(f"address {n} of someone", 40, 90, 700 - 9 * n, 8) for n in range(10)]
    left = [_line(f"left {n} of the first column", 160, 180, 700 - 12 * n, 10) for n in range(12)]
    right = [_line(f"right {n} of the other one", 380, 180, 698 - 12 * n, 10) for n in range(12)]
    title = _line("A title over all columns", 40, 500, 740, 16)
    across = _line("A sentence that goes over all columns of the page", 40, 520, 500, 10)
    lines = [title, *side, *left, *right, across]
    mixed = sorted(lines, key=lambda line: -line.top)
    assert in_reading_order(mixed) == lines


def test_columns_below_a_block_of_full_width_are_found() -> None:
    block = [_line(f"full width {n}", 40, 500, 760 - 12 * n, 10) for n in range(12)]
    left = [_line(f"left {n}", 40, 240, 580 - 12 * n, 10) for n in range(6)]
    right = [_line(f"right {n}", 300, 240, 580 - 12 * n, 10) for n in range(6)]
    mixed = sorted([*block, *left, *right], key=lambda line: -line.top)
    assert in_reading_order(mixed) == [*block, *left, *right]


def test_a_table_reads_by_rows_and_a_numbered_list_keeps_its_numbers() -> None:
    table = [
        _line(f"{text} {n}", at, 40, 700 - 12 * n, 10)
        for n in range(10)
        for text, at in (("drug", 40), ("dose", 260), ("peak", 480))
    ]
    assert in_reading_order(table) == table
    numbered = [
        _line(text, at, wide, 700 - 12 * n, 10)
        for n in range(10)
        for text, at, wide in ((f"{n}.", 40, 10), (f"item {n} in words", 60, 400))
    ]
    assert in_reading_order(numbered) == numbered


def test_references_in_smaller_type_do_not_make_the_text_a_heading() -> None:
    body = [_line(f"We followed adults {n} and", 40, 400, 700 - 12 * n, 10) for n in range(4)]
    heading = _line("References", 40, 60, 640, 10)
    cited = [_line(f"{n}. Author A. A study", 40, 400, 620 - 8 * n, 7) for n in range(40)]
    _, text = to_markdown([[*body, heading, *cited]])
    assert text.startswith("We followed adults 0 and We followed adults 1 and")


def test_a_sentence_goes_on_over_what_stands_between_its_columns() -> None:
    begins = [_line(f"Pain fell in adults {n} who", 40, 200, 700 - 12 * n, 10) for n in range(4)]
    figure = [_line("Figure 2. Pain by week.", 40, 200, 640, 8)]
    goes_on = [_line(f"walked each day {n} and", 300, 200, 700 - 12 * n, 10) for n in range(4)]
    _, text = to_markdown([[*begins, *figure, *goes_on]])
    assert "adults 3 who walked each day 0 and" in text
    assert text.endswith("Figure 2. Pain by week.")


def test_heads_of_left_and_right_pages_are_left_out() -> None:
    pages = []
    for number in range(6):
        body = [
            _line(f"Line {n} of page {number} has its own words", 40, 400, 700 - 12 * n, 10)
            for n in range(9)
        ]
        head = ("Adams and Bell", "Walking for knee pain")[number % 2]
        pages.append([_line(head, 40, 90, 760, 8), *body, _line(f"{head} {number}", 40, 90, 30, 8)])
    _, text = to_markdown(pages)
    assert "Adams" not in text and "knee" not in text
    assert text.count("has its own words") == 54


def test_cells_of_a_table_at_the_foot_of_a_page_are_no_page_numbers_and_no_running_heads() -> None:
    """A number that goes from its row stands beside another group."""
    tables = {
        1: ["Group|Deaths|N|Dose", "Aspirin|120|450|5 mg", "Placebo|98|452|none"],
        2: ["Group|Deaths (%)|Age|Dose", "Aspirin|12 (5)|60|5 mg", "Placebo|98 (20)|61|none"],
    }
    pages = []
    for number in range(6):
        lines = [
            _line(f"Line {n} of page {number} has its own words", 40, 400, 700 - 12 * n, 10)
            for n in range(9)
        ]
        for n, row in enumerate(tables.get(number, ())):
            cells = enumerate(row.split("|"))
            lines += [_line(cell, 40 + 100 * at, 40, 500 - 12 * n, 9) for at, cell in cells]
        foot = [_line("Smith et al.", 40, 60, 30, 8), _line(f"{number + 1}", 400, 8, 30, 8)]
        pages.append([*lines, *foot])
    _, text = to_markdown(pages)
    for table in tables.values():
        assert " ".join(table).replace("|", " ") in text.replace("\n\n", " ")
    assert "Smith" not in text
    assert "\n\n1" not in text


def test_wide_blanks_of_justified_text_are_no_gutter() -> None:
    full = [_line(f"words that fill the column {n}", 40, 250, 700 - 12 * n, 10) for n in range(3)]
    loose = [
        _line(text, at, wide, 700 - 12 * n, 10)
        for n in (3, 4)
        for text, at, wide in ((f"thiobarbituric {n}", 40, 90), (f"acid {n}", 145, 145))
    ]
    after = [_line(f"and more words {n}", 40, 250, 640 - 12 * n, 10) for n in range(3)]
    ordered = in_reading_order([*full, *loose, *after])
    assert [line.text for line in ordered[3:5]] == [
        "thiobarbituric 3 acid 3",
        "thiobarbituric 4 acid 4",
    ]


def test_a_raised_number_stays_in_its_line() -> None:
    pieces = [_line("counted 10", 40, 60, 700, 10), _line("6", 101, 4, 706, 5)]
    following = _line("cells in each millilitre", 107, 120, 700, 10)
    ordered = in_reading_order([*pieces, following, _line("of blood.", 40, 60, 688, 10)])
    assert [line.text for line in ordered] == ["counted 10 6 cells in each millilitre", "of blood."]


def raised_pdf(pieces: list[tuple[str, float, float, str]], rise: bool) -> bytes:
    """A page with a line of pieces: text, size, points above the line, font."""
    stream = io.BytesIO()
    canvas = Canvas(stream)
    text = canvas.beginText(60, 700)
    for said, size, up, font in pieces:
        text.setFont(font, size)
        if rise:
            text.setRise(up)
        else:
            text.setTextOrigin(text.getX(), 700 + up)
        text.textOut(said)
    canvas.drawText(text)
    canvas.save()
    return stream.getvalue()


SET = "Helvetica"


@pytest.mark.parametrize(
    ("pieces", "read"),
    [
        ([("200 x 10", 10, 0, SET), ("6", 6, 4, SET), ("/L were seen", 10, 0, SET)],
         "200 × 10^6/L were seen"),
        ([("It fell by 25", 10, 0, SET), ("3,4", 6.5, 3.3, SET), (" in all", 10, 0, SET)],
         "It fell by 25^3,4 in all"),
        ([("Aged 65.", 10, 0, SET), ("12", 6, 4, SET), (" In 45%", 10, 0, SET), ("3", 6, 4, SET),
          (" it fell.", 10, 0, SET), ("4", 6, 4, SET)], "Aged 65.^12 In 45%^3 it fell.4"),
        ([("Of 10", 10, 0, SET), ("\u20133", 6, 4, SET), (" mol", 10, 0, SET)], "Of 10^-3 mol"),
        ([("Of CO", 10, 0, SET), ("2", 6, -2, SET), (" and 1", 10, 0, SET), ("st", 6, 4, SET),
          (" and a", 10, 0, SET), ("2", 6, 4, SET)], "Of CO2 and 1st and a2"),
        ([("Give 2", 10, 0, SET), ("1", 6, 4, SET), ("/", 10, 0, SET), ("2", 6, 0, SET),
          (" tablets", 10, 0, SET)], "Give 21/2 tablets"),
        ([("Of 10", 10, 0, SET), ("000", 8, 0, "Times-Roman"), (" and 1", 10, 0, SET),
          ("0", 6, -2, SET), (" men", 10, 0, SET)], "Of 10000 and 10 men"),
        ([("Of 10", 10, 0, SET), ("25 mg", 6, 4, SET), (" each", 10, 0, SET)], "Of 1025 mg each"),
    ],
)  # fmt: skip
def test_a_number_raised_behind_a_number_in_a_pdf_is_no_part_of_it(
    pieces: list[tuple[str, float, float, str]], read: str
) -> None:
    for rise in (True, False):
        assert one("pdf", raised_pdf(pieces, rise))["text"].replace("\u2013", "-") == read


def test_a_number_of_another_font_is_raised_where_its_line_is() -> None:
    for up, read in ((3.3, "It fell by 25^3 in all"), (0, "It fell by 253 in all")):
        piece = ("3", 6.5, up, "Times-Roman")
        pieces = [("It fell by 25", 10, 0, SET), piece, (" in all", 10, 0, SET)]
        assert one("pdf", raised_pdf(pieces, rise=False))["text"] == read


def test_a_licence_along_the_margin_does_not_stand_in_the_text() -> None:
    page = io.BytesIO()
    canvas = Canvas(page)
    for n in range(12):
        canvas.drawString(100, 700 - 14 * n, f"Sentence {n} tells what was found in the trial.")
    canvas.rotate(90)
    canvas.setFont("Helvetica", 20)
    canvas.drawString(560, -60, "This article is free to read")
    canvas.save()
    row = one("pdf", page.getvalue())
    assert row["text"].index("Sentence 11") < row["text"].index("This article is free to read")
    assert row["title"] == "", "it is the largest type, and no title"


@pytest.mark.parametrize(
    ("from_the_left", "read"),
    [
        ("םולש", "שלום"),
        ("ספארג R 2.5 (ןוחבא)", "(אבחון) R 2.5 גראפס"),
        ("\ufeea\ufe94", "\u0629\u0647"),
    ],
)
def test_what_is_read_from_the_right_is_stored_so(from_the_left: str, read: str) -> None:
    assert pdf_lines._logical([*from_the_left]) == read


@pytest.mark.parametrize("cell", ["Copper [122]", "1 Copper 0.8", "1970 Vertical 105 [15] 1974"])
def test_a_column_named_references_ends_no_text(cell: str) -> None:
    text = f"# T\n\nBefore.\n\n## References\n\n{cell}\n\nSilver [123]\n\nWhat was found."
    assert "What was found." in one("markdown", text)["text"]
    cited = text.replace(cell, "1. Adams B, Cole D. Walking. 2019;1:2.").replace(
        "Silver", "2. Bell E."
    )
    assert "What was found." not in one("markdown", cited)["text"]


def _line(text: str, left: float, wide: float, bottom: float, size: float) -> PdfLine:
    return PdfLine(text, left, left + wide, bottom, bottom + size, size, False)


def test_a_scan_is_said_to_be_one() -> None:
    row = one("pdf", scanned_pdf("Pain fell."))
    assert row["reject"]["reason"] == "no_text_layer"
    assert (
        "1 with images: a scan; stages.parsed.run.pdf=docling reads it" in row["reject"]["detail"]
    )


def set_in(*pieces: tuple[str, str], named: bytes = b"") -> bytes:
    """A line of pieces, each in a font of its own; `named` is what the file calls Helvetica."""
    stream = io.BytesIO()
    canvas, left = Canvas(stream, pageCompression=0), 60.0
    for font, text in pieces:
        canvas.setFont(font, 10)
        canvas.drawString(left, 700, text)
        left += canvas.stringWidth(text, font, 10)
    canvas.save()
    return stream.getvalue().replace(
        b"/BaseFont /Helvetica", b"/BaseFont " + (named or b"/Helvetica")
    )


@pytest.mark.parametrize(
    ("sign", "named", "read"),
    [
        ("m", b"/AdvPi1   ", "μg"),
        ("l", b"/AdvPSMP13", "μg"),
        ("5", b"/AdvP7DA6 ", "= g"),
        ("6", b"/AdvP7DA6 ", "± g"),
        ("a", b"/AdvPSMP13", "α g"),
        ("q", b"/AdvPSMP13", "\ufffd g"),
        ("m", b"/AnyOther1", "μg"),  # a letter in a font of its own before a unit
        ("l", b"/AnyOther1", "μg"),
        ("k", b"/AnyOther1", "k g"),
    ],
)
def test_a_font_of_signs_reads_as_what_it_prints(sign: str, named: bytes, read: str) -> None:
    pieces = (
        ("Times-Roman", "Give 20 "),
        ("Helvetica", sign),
        ("Times-Roman", f"g a day.{' Then rest.' * 9}"),
    )
    row = one("pdf", set_in(*pieces, named=named))
    assert row["text"].replace(" ", "").partition("Then")[0] == f"Give20{read}aday.".replace(
        " ", ""
    )
    assert row["metadata"].get("signs_not_read", 0) == read.count("\ufffd")


@pytest.mark.parametrize("sign", ["μ", "≤", "±", "β"])
def test_symbol_has_an_encoding_of_its_own(sign: str) -> None:
    body = set_in(("Times-Roman", "Give "), ("Symbol", sign), ("Times-Roman", " 20 a day."))
    assert sign in one("pdf", body)["text"]


def test_letters_of_words_are_no_signs() -> None:
    body = set_in(
        ("Times-Roman", "Give 20 "), ("Helvetica", "mg of salt, 5 m"), ("Times-Roman", "l.")
    )
    assert one("pdf", body)["text"].replace(" ", "") == "Give20mgofsalt,5ml."


def test_letters_of_formulas_are_plain_letters() -> None:
    assert one("text", "Give 20 \U0001d707g.")["text"] == "Give 20 μg."


@pytest.mark.parametrize("cut", [20, 200, 700])
def test_a_cut_pdf_costs_itself(cut: int) -> None:
    body = paper_pdf("A title", [("Results", "Pain fell. " * 50)])[:cut]
    assert reason("pdf", body) in {"broken_pdf", "no_text_layer"}


def test_words_broken_at_a_line_end_are_joined() -> None:
    assert join_lines(["a multi-", "disciplinary team, COVID-", "19 and Cochran-", "Mantel"]) == (
        "a multidisciplinary team, COVID-19 and Cochran-Mantel"
    )


# --- Word ----------------------------------------------------------------------------------


def test_a_word_file_keeps_headings_and_tables() -> None:
    row = one(
        "docx",
        word_file([("Heading1", "Ankle sprain"), ("Heading2", "Results"), ("", "Pain fell.")]),
    )
    assert (row["title"], row["text"]) == ("Ankle sprain", "## Results\n\nPain fell.")


@pytest.mark.parametrize("body", [b"", b"PK\x03\x04 no archive", empty_zip()])
def test_a_broken_word_file_costs_itself(body: bytes) -> None:
    assert reason("docx", body) == "broken_docx"


def test_a_page_has_the_title_and_the_year_that_it_gives_to_libraries() -> None:
    page = (
        '<head><title>Demo | Full text | Q</title><meta name="citation_title" content="Drug <i>Q</i>'
        ' in gout"><meta name="citation_online_date" content="2016/02/01"></head><body><p>Flares fell.'
    )
    row = one("html", page)
    assert (row["title"], row["year"], row["text"]) == ("Drug Q in gout", 2016, "Flares fell.")


def test_shapes_that_close_themselves_do_not_nest() -> None:
    assert one("html", "<svg>" + 300 * "<g id='x'/>" + "</svg><p>Flares fell.")["text"]


# --- what was left out ---------------------------------------------------------------------

WORDS = "Pain fell by ten millimetres in the trained group. "


def with_box(paragraphs: int) -> bytes:
    """A Word file with text in a box as new programs draw it, and nothing for older ones."""
    inner = f"<w:p><w:r><w:t>{WORDS}</w:t></w:r></w:p>" * paragraphs
    shape = f'<b:txbx xmlns:b="box"><w:txbxContent>{inner}</w:txbxContent></b:txbx>'
    return word_file([("", f"Supplement</w:t></w:r><w:r><w:drawing>{shape}</w:drawing><w:t>")])


def with_pages_without_text(text: str, empty: int) -> bytes:
    stream = io.BytesIO()
    canvas = Canvas(stream)
    for number, at in enumerate(range(0, len(text), 90)):
        canvas.drawString(60, 780 - 14 * number, text[at : at + 90])
    for _ in range(empty):
        canvas.showPage()
        canvas.rect(60, 60, 400, 600)
    canvas.save()
    return stream.getvalue()


LEFT_OUT = {
    "html": "<body><article>Read on.</article><nav>{}</nav></body>",
    "jats": "<article><body><p>Read on.</p></body><back><ack><p>{}</p></ack></back></article>",
    "jats, of a publisher's own kind": "<article><body><p>Read on.</p></body><sections>{}</sections></article>",
}


@pytest.mark.parametrize("kind", LEFT_OUT)
def test_a_page_of_which_nearly_nothing_is_kept_is_refused_with_both_counts(kind: str) -> None:
    format = kind.partition(",")[0]
    row = one(format, LEFT_OUT[kind].format(WORDS * 3))
    assert row["reject"]["reason"] == "mostly_left_out"
    assert row["reject"]["detail"] == "file: 2 of 29 words could be read"
    kept = one(format, LEFT_OUT[kind].format(WORDS))
    assert (kept["reject"], kept["metadata"]["words_left_out"]) == (None, 9)


def test_text_that_word_draws_in_a_box_is_counted_where_it_cannot_be_read() -> None:
    assert one("docx", with_box(1))["metadata"]["words_left_out"] == 9
    assert one("docx", with_box(3))["reject"]["detail"] == "file: 1 of 28 words could be read"


def test_the_cover_of_a_scan_is_not_the_paper() -> None:
    cover = with_pages_without_text("Downloaded by the library.", 8)
    assert reason("pdf", cover) == "no_text_layer"
    assert "8 of 9 pages without text: a scan;" in one("pdf", cover)["reject"]["detail"]
    paper = with_pages_without_text(WORDS * 9, 2)
    assert one("pdf", paper)["metadata"]["pages_without_text"] == 2


def test_lines_that_recur_on_every_page_of_a_pdf_are_counted() -> None:
    body = paper_pdf("Walking", [("Results", WORDS * 200)])
    assert one("pdf", body)["metadata"]["words_left_out"] > 0


def test_a_page_that_is_one_form_is_read_and_a_form_beside_the_text_is_not() -> None:
    page = "<body><form>{}</form><p>Search the site.</p></body>"
    assert "trained group" in one("html", page.format(f"<p>{WORDS * 3}</p>"))["text"]
    assert "Go" not in one("html", page.format("<button>Go</button>"))["text"]


def test_the_head_of_an_article_is_text_and_that_of_a_page_is_not() -> None:
    page = "<body><header>Our hospital</header><article><header><h1>Knees</h1></header><p>Walk.</p></article></body>"
    row = one("html", page)
    assert (row["title"], row["text"]) == ("Knees", "Walk.")


# --- plain text and tables -----------------------------------------------------------------


def test_a_plain_text_takes_its_title_from_its_file() -> None:
    assert one("text", b"Pain fell.")["title"] == "file"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_read(encoding: str) -> None:
    row = one("text", "Pain fell \u2014 in 12 patients.\nNa\u00efve.".encode(encoding))
    assert row["text"] == "Pain fell \u2014 in 12 patients.\nNa\u00efve."


def test_cells_that_span_are_repeated() -> None:
    page = (
        "<table><tr><th rowspan=2>Drug</th><th colspan=2>Effect</th></tr>"
        "<tr><th>a</th><th>b</th></tr><tr><td rowspan='x'>X</td><td>1</td><td>2</td></tr></table>"
    )
    lines = one("html", f"<html><body><h1>T</h1>{page}</body></html>".encode())["text"].split("\n")
    assert lines == [
        "| Drug | Effect | Effect |", "| --- | --- | --- |", "| Drug | a | b |", "| X | 1 | 2 |"
    ]  # fmt: skip
