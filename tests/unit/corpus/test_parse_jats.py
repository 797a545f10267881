"""Of a JATS article all is read but what a list names, and of that the words are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from srrag.corpus.inline_xml import MAX_COLUMNS, grid, markdown, span_of
from srrag.corpus.inline_xml import TableCell as Cell
from srrag.corpus.parse import parse_documents
from srrag.corpus.parse_jats import parse_jats, split_articles
from srrag.corpus.parsed import Unparsable
from srrag.corpus.read_cnxml import ReadCnxml
from srrag.corpus.record import raw_table

ARTICLE = """<article><front><article-meta><title-group><article-title>Drug Q</article-title>
</title-group><abstract><p>Flares fell.</p></abstract><abstract abstract-type="toc"><p>In short.</p>
</abstract><trans-abstract xml:lang="es"><title>Resumen</title><p>Menos brotes.</p></trans-abstract>
</article-meta></front><body>{body}</body>{after}</article>"""


def text_of(body: str, after: str = "") -> str:
    """The text of an article with this body."""
    return parse_jats(ARTICLE.format(body=body, after=after).encode()).text


@pytest.mark.parametrize(
    ("xml", "said"),
    [
        ("<def-list><def-item><term>SAE</term><def><p>hospital</p></def></def-item></def-list>",
         "- SAE: hospital"),
        ("<table-wrap><table><tr><td>Q*</td></tr></table><table-wrap-foot><fn><p>*rash</p></fn>"
         "</table-wrap-foot></table-wrap>", "*rash"),
        ("<table-wrap-foot><fn><label>**</label><p>P &lt; 0.01.</p></fn><fn><label>(2)</label><p>"
         "patients fell.</p><p>Late.</p></fn></table-wrap-foot>", "[**] P < 0.01.\n\n[2] patients "
         "fell.\n\nLate."),
        ("<table-wrap-foot><fn><p><sup>#</sup> P &lt; 0.05.</p></fn></table-wrap-foot>",
         "\n\n#P < 0.05."),
        ("<boxed-text><caption><title>Box</title><p>Check the liver.</p></caption></boxed-text>",
         "Check the liver."),
        ("<p>As <xref ref-type='bibr'>Cole et al. (2014)</xref> showed.</p>",
         "As Cole et al. (2014) showed."),
        ("<p>Shown before <xref ref-type='bibr'>12</xref>.</p>", "Shown before."),
        ("<list><list-item><p>one</p><p><list><list-item><p>two</p></list-item></list></p>"
         "</list-item></list>", "- one\n    - two"),
        ("<p>Text<list><list-item><p>in it</p></list-item></list></p>", "- in it"),
        ("<p>As Cole (<xref ref-type='bibr'>2014</xref>) said.<xref ref-type='bibr'>7</xref></p>",
         "As Cole (2014) said."),
        ("<p>Shown <xref ref-type='bibr'>[1]</xref>, <xref ref-type='ref'>[2]</xref>.</p>",
         "Shown."),
        ("<p>Known.<sup><xref ref-type='bibr'>1</xref></sup><sup>,</sup> <sup><xref "
         "ref-type='bibr'>2</xref></sup> But 5<xref ref-type='bibr'>3</xref> or 6.</p>",
         "Known. But 5 or 6."),
        ("<p>In <xref ref-type='bibr'>4</xref> it fell [<xref ref-type='bibr'>5</xref>–<xref "
         "ref-type='bibr'>7</xref>].</p>", "In it fell."),
        ("<p>HBsAg(-), ER (–) and CD4<sup>-</sup> but Cl<sup>–</sup> [<xref ref-type='bibr'>1"
         "</xref>-<xref ref-type='bibr'>3</xref>].</p>", "HBsAg(-), ER (–) and CD4- but Cl–."),
        ("<p>Known<sup><xref ref-type='bibr'>1</xref></sup><sup>-</sup><sup><xref "
         "ref-type='bibr'>3</xref></sup> (<xref ref-type='bibr'>4</xref>, <xref ref-type='bibr'>5"
         "</xref>) ( ) of <xref ref-type='bibr'>6</xref>.</p>", "Known of."),
        ("<p>Age was 65.<sup>12</sup> In 45%<sup>3</sup> it fell by 10<sup> 6</sup> or 10 <sup>9"
         "</sup>/L.</p>", "Age was 65.^12 In 45%^3 it fell by 10^6 or 10^9/L."),
        ("<p>Of 20 <sup>131</sup>I scans.</p>", "Of 20 131I scans."),
        ("<table><tr><td>12<hr/>34</td><td>5<break/><sup>6</sup></td></tr></table>",
         "| 12 34 | 5 6 |"),
        ("<def-list><title>Terms</title><def-item><term>CI</term><def><p>interval</p></def>"
         "</def-item></def-list>", "Terms\n\n- CI: interval"),
        ("<sec><table><tr><td>Q</td><td>5</td></tr></table></sec>", "| Q | 5 |"),
        ("<p>Doses: <table><tr><td>Q</td><td>5</td></tr></table></p>", "Doses:\n\n| Q | 5 |"),
        ("<table-wrap><table><tgroup><colspec colname='a'/><colspec colname='b'/><colspec "
         "colname='c'/><thead><row><entry>Arm</entry><entry namest='b' nameend='c'>Dose</entry>"
         "</row></thead><tbody><row><entry morerows='1'>Q</entry><entry>5</entry><entry>6</entry>"
         "</row><row><entry>7</entry><entry>8</entry></row></tbody></tgroup></table></table-wrap>",
         "| Arm | Dose | Dose |\n| --- | --- | --- |\n| Q | 5 | 6 |\n| Q | 7 | 8 |"),
        ("<table><tgroup><colspec colname='a'/><colspec colname='b'/><tbody><row><entry>One</entry>"
         "<entry>Two</entry></row></tbody></tgroup><tgroup><colspec colname='c1'/><colspec "
         "colname='c2'/><colspec colname='c3'/><thead><row><entry>A</entry><entry>Placebo</entry>"
         "<entry>Drug</entry></row></thead><tbody><row><entry colname='c1'>Deaths</entry><entry "
         "colname='c3'>5</entry></row><row><entry>Falls</entry><entry namest='c2' nameend='c3'>7"
         "</entry></row><row><entry colname='c3'>9</entry></row></tbody></tgroup></table>",
         "| A | Placebo | Drug |\n| Deaths |  | 5 |\n| Falls | 7 | 7 |\n|  |  | 9 |"),
        ("<table><tr><td>33<xref ref-type='table-fn'>1</xref></td><td>8<xref ref-type='table-fn'>"
         "<sup>2</sup></xref></td><td>7<sup><xref ref-type='table-fn'>a</xref></sup></td></tr>"
         "</table>", "| 33^1 | 8^2 | 7a |"),
        ("<p>Rate 5<xref ref-type='fn'>2</xref> rose<xref ref-type='fn'/> (<xref ref-type='fn'>3"
         "</xref>).</p>", "Rate 5^2 rose (3)."),
        ("<supplementary-material><label>S1</label><media><caption><p>Doses a day.</p></caption>"
         "</media></supplementary-material>", "Doses a day."),
        ("<fig><label>1</label><alternatives><graphic/><textual-form>A to B</textual-form>"
         "</alternatives><disp-quote><p>It helped.</p></disp-quote></fig>", "A to B\n\nIt helped."),
        ("<sec><title>Methods</title><strange>What no list names.</strange></sec>",
         "What no list names."),
    ],
)  # fmt: skip
def test_what_stands_in_a_container_is_read(xml: str, said: str) -> None:
    assert said in text_of(xml)


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("2×<msup><mn>10</mn><mn>6</mn></msup> cells", "2×10^6 cells"),
        ("<mn>10</mn>\n<msup><mrow/>\n<mrow><mo>−</mo>\n<mn>3</mn></mrow></msup> mol",
         "10^−3 mol"),
        ("<msup><mn>10</mn><mrow><mn>6</mn><mo>+</mo><mi>n</mi></mrow></msup>", "10^(6+n)"),
        ("<msup><mi>R</mi><mn>2</mn></msup> = 0.9", "R2 = 0.9"),
        ("<msubsup><mn>10</mn><mi/><mn>4</mn></msubsup>", "10^4"),
        ("<mfrac><mn>1</mn><mn>2</mn></mfrac> tablet", "1/2 tablet"),
        ("<mn>2</mn><mfrac><mn>1</mn><mn>2</mn></mfrac><mn>3</mn>", "2 1/2 3"),
        ("<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mi>c</mi></mfrac>.", "(a+b)/c."),
        ("<mfrac linethickness='0'><mn>5</mn><mn>2</mn></mfrac>", "5 2"),
        ("<msqrt><mn>2</mn></msqrt> and <mroot><mn>8</mn><mn>3</mn></mroot>", "√2 and 8^(1/3)"),
        ("<msup><mn>10</mn></msup>", "10"),
        ("<mn>95</mn><mspace/><mn>97</mn>", "95 97"),
        ("<mtable><mtr><mtd>1</mtd><mtd>2</mtd></mtr></mtable>", "1 2"),
    ],
)  # fmt: skip
def test_a_power_or_fraction_of_a_formula_is_no_other_number(formula: str, said: str) -> None:
    math = f"<inline-formula><alternatives><tex-math>x</tex-math><math>{formula}</math>"
    text = text_of(f"<p>Of {math}</alternatives></inline-formula></p>")
    assert text.endswith(f"Of {said}")


@pytest.mark.parametrize(
    "letter", ["decision-letter", "aggregated-review-documents", "referee-report"]
)
def test_floats_appendices_and_translations_are_read_and_letters_are_not(letter: str) -> None:
    text = text_of(
        "<p>Body.</p>",
        "<back><ack><p>Thanks to all.</p></ack><ref-list><ref>Old paper</ref></ref-list><app-group>"
        "<app><title>Appendix</title><p>Three died.</p></app></app-group></back><floats-group>"
        "<table-wrap><caption><p>Harms</p></caption><table><tr><td>Rash</td><td>7</td></tr></table>"
        "</table-wrap></floats-group><sub-article article-type='translation'><front-stub>"
        "<title-group><article-title>El Q</article-title></title-group></front-stub><body>"
        f"<p>Cuerpo.</p></body></sub-article><sub-article article-type='{letter}'><body>"
        "<p>We liked it.</p></body></sub-article>",
    )
    for said in ("Menos brotes.", "Three died.", "Harms", "| Rash | 7 |", "## El Q", "Cuerpo."):
        assert said in text
    for left_out in ("In short.", "Thanks to all.", "Old paper", "We liked it."):
        assert left_out not in text


def test_the_words_that_are_left_out_are_counted_but_those_of_references() -> None:
    after = "<back><ack><p>Thanks to all.</p></ack><ref-list><ref>Old paper</ref></ref-list></back>"
    parsed = parse_jats(ARTICLE.format(body="<p>Body.</p>", after=after).encode())
    assert parsed.metadata["words_left_out"] == 5


def test_a_set_of_articles_is_split_and_a_single_one_is_not() -> None:
    one = ARTICLE.format(body="<p>One.</p>", after="")
    two = one.replace("One.", "Two.")
    bodies = split_articles(f"<pmc-articleset>{one}{two}</pmc-articleset>".encode())
    assert [parse_jats(body).text.split()[-1] for body in bodies] == ["One.", "Two."]
    assert split_articles(one.encode()) == []


def test_an_article_of_another_kind_says_so_and_one_with_a_body_keeps_its_title() -> None:
    with pytest.raises(Unparsable, match="an <article> of <pubfm>, <bdy>"):
        parse_jats(b"<article><pubfm/><bdy><p>Flares fell.</p></bdy></article>")
    head = b"<article><head><title>Drug Q</title></head>"
    own = head + b"<body><title>Aim</title><p>It is.</p></body></article>"
    assert parse_jats(own).title == "Drug Q"


@pytest.mark.parametrize(
    ("title", "subtitle", "read"),
    [
        ("Drug Q", "a randomised trial", "Drug Q: a randomised trial"),
        ("Does Q help?", "A cohort study", "Does Q help? A cohort study"),
        ("Drug Q: a trial", "a trial", "Drug Q: a trial"),
    ],
)
def test_a_subtitle_is_a_part_of_the_title(title: str, subtitle: str, read: str) -> None:
    xml = ARTICLE.format(body="<p>Body.</p>", after="").replace("Drug Q", title)
    whole = xml.replace("</title-group>", f"<subtitle>{subtitle}</subtitle></title-group>")
    assert parse_jats(whole.encode()).title == read


def test_a_dose_for_two_forms_stands_beside_both() -> None:
    rows = [
        [Cell("Form"), Cell("Dose"), Cell("Peak")],
        [Cell("Tablet"), Cell("5", rows=2), Cell("40")],
        [Cell("Capsule"), Cell("90")],
    ]
    assert grid(rows, "")[2] == ["Capsule", "5", "90"]


def test_a_heading_over_two_columns_is_repeated_and_a_bar_does_not_end_a_cell() -> None:
    rows = [
        [Cell(""), Cell("Drug | Q", columns=2)],
        [Cell("n"), Cell("7"), Cell("0")],
    ]
    assert list(markdown(rows)) == [
        "|  | Drug / Q | Drug / Q |",
        "| --- | --- | --- |",
        "| n | 7 | 0 |",
    ]


def test_a_short_row_beneath_a_span_leaves_its_place_empty() -> None:
    rows = [[Cell("a"), Cell("b"), Cell("c", rows=2)], [Cell("d")]]
    assert grid(rows, "") == [["a", "b", "c"], ["d", "", "c"]]


def test_spans_that_make_no_sense_are_one_and_none_is_wider_than_the_bound() -> None:
    assert [span_of(told) for told in (None, "0", "-3", "x", "2", "9" * 12)] == [1, 1, 1, 1, 2, 1]
    assert len(grid([[Cell("a", columns=span_of("5000"))]], "")[0]) == MAX_COLUMNS


COLLECTION = """<col:collection xmlns:col="http://cnx.rice.edu/collxml"
 xmlns:md="http://cnx.rice.edu/mdml"><col:metadata><md:title>A Book</md:title></col:metadata>
<col:content><col:module document="m0"/><col:subcollection><md:title>Unit</md:title><col:content>
<col:subcollection><md:title>Pain</md:title><col:content><col:module document="m1"/>
<col:module document="m2"/></col:content></col:subcollection>
<col:subcollection><md:title>Rest</md:title><col:content><col:module document="m3"/>
<col:module document="m9"/></col:content></col:subcollection>
</col:content></col:subcollection></col:content></col:collection>"""
HEAD = '<document xmlns="http://cnx.rice.edu/cnxml"{}><title>{}</title><content>{}</content>'
INTRO = (
    '<figure id="f0"><media><image src="../../media/one.jpg"/></media></figure><para>Hello.</para>'
)
SECTION = """<section class="learning-objectives"><title>Learning Outcomes</title>
<list><item>Define pain.</item></list></section>
<section id="s"><title>Kinds</title><para>Pain is <term>nociceptive</term> (see
<link target-id="f1"/>) or <link document="m3">other</link>.</para>
<list><item>acute<list><item>sharp</item></list></item><item>chronic</item></list>
<figure id="f1"><media alt="x"><image src="../../media/two.jpg"/></media><caption>Paths.</caption>
</figure><note class="tip"><title>Clinical Tip</title><para>Ask.</para></note>
<table id="t1"><tgroup><colspec colname="c1"/><colspec colname="c2"/>
<thead><row><entry>Drug</entry><entry>Dose</entry>
</row></thead><tbody><row><entry>A<newline/>(B)</entry><entry>1|2</entry></row><row>
<entry colname="c2">3</entry></row></tbody></tgroup>
<caption>Doses</caption></table></section>
<section class="review"><para>What is pain?</para></section>"""
GLOSSARY = (
    "<glossary><definition><term>pain</term><meaning>what hurts</meaning></definition></glossary>"
)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    (tmp_path / "collections").mkdir()
    path = tmp_path / "collections" / "pain.collection.xml"
    path.write_text(COLLECTION, "utf-8")
    modules = {
        "m1": HEAD.format(' class="introduction"', "Introduction", INTRO) + "</document>",
        "m2": HEAD.format("", "What hurts", SECTION) + GLOSSARY + "</document>",
        "m3": "<document>",
    }
    for name, text in modules.items():
        (tmp_path / "modules" / name).mkdir(parents=True)
        (tmp_path / "modules" / name / "index.cnxml").write_text(text, "utf-8")
    return path


def read(path: Path, **options: object) -> pa.Table:
    return parse_documents(raw_table(list(ReadCnxml(path=str(path), **options).scan())))  # type: ignore[arg-type]


def test_modules_are_documents_with_their_place_in_the_book(book: Path) -> None:
    rows = read(book).to_pylist()
    assert [row["source_id"] for row in rows[:2]] == ["pain-01-00", "pain-01-01"]
    assert [row["title"] for row in rows[:2]] == ["1 Pain: Introduction", "1.1 What hurts"]
    told = json.loads(rows[1]["metadata"])
    assert (told["book"], told["chapter"], told["chapter_title"]) == ("A Book", "1", "Pain")
    assert [json.loads(row["metadata"])["order"] for row in rows[:2]] == ["0", "1"]


def test_headings_lists_figures_and_tables(book: Path) -> None:
    text = read(book)["text"][1].as_py()
    assert text.split("\n\n") == [
        "## Kinds",
        "Pain is nociceptive (see Figure 1.2) or other.",
        "- acute\n  - sharp\n- chronic",
        "Figure 1.2. Paths. [two.jpg]",
        "### Clinical Tip",
        "Ask.",
        "Table 1.1. Doses",
        "| Drug | Dose |\n| --- | --- |\n| A (B) | 1/2 |\n| | 3 |",
    ]


def test_questions_outcomes_and_glossaries_are_left_out(book: Path) -> None:
    text = " ".join(read(book)["text"].to_pylist())
    for said in ("Define pain", "What is pain", "what hurts"):
        assert said not in text
    kept = " ".join(read(book, drop=())["text"].to_pylist())
    assert "Define pain" in kept


def test_broken_and_missing_modules_are_refusals(book: Path) -> None:
    rejects = read(book)["reject"].to_pylist()
    assert rejects[:2] == [None, None]
    assert [each["reason"] for each in rejects[2:]] == ["broken_xml", "unreadable"]
    assert "m9/index.cnxml" in rejects[3]["detail"]


def test_what_is_no_collection_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "e.collection.xml"
    empty.write_text("<collection/>", "utf-8")
    with pytest.raises(ValueError, match="no chapter"):
        ReadCnxml(path=str(empty)).scan()
    (tmp_path / "two.collection.xml").write_text("<collection/>", "utf-8")
    with pytest.raises(ValueError, match="2 collections"):
        ReadCnxml(path=str(tmp_path)).scan()
    with pytest.raises(ValueError, match="drop"):
        ReadCnxml(path=str(empty), drop="review")  # type: ignore[arg-type]
