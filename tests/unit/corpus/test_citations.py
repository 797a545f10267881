"""Exports of searches: each format gives title, abstract, year, ids and types of each record."""

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from srrag.corpus.citations import export_format, read_citations
from srrag.corpus.notices import read_notices
from srrag.corpus.parse import parse_documents
from srrag.corpus.parsed import Unparsable, doi_of, plain_ids, pmcid_of, pmid_of
from srrag.corpus.read_folder import ReadFolder
from srrag.corpus.record import RawRecord, raw_table

RIS = """\ufeffTY  - JOUR
TI  - Honey for cough
AB  - Six trials were pooled.
Honey eased cough.
PY  - 2021/03//
DO  - https://doi.org/10.9999/Demo.22
M3  - Systematic Review
KW  - Honey
KW  - Cough
AN  - 90000041
DB  - PubMed
TY  - JOUR
T1  - Zinc for colds
N2  - Colds lasted four days.
ER  -
"""
MEDLINE = """
PMID- 90000021
DP  - 2019 Mar
TI  - Zinc lozenges for the common cold:
      a trial.
AB  - Symptoms lasted 4.1 days.
LID - 10.9999/z.1 [doi]
PMC - PMC900
PT  - Randomized Controlled Trial
MH  - *Common Cold/drug therapy
RIN - J Demo. 2020;1:1. PMID: 90000029

PMID- 90000022
TI  - Honey.
AB  - Honey eased cough.
"""
WOS = """FN Clarivate Analytics Web of Science
VR 1.0
PT J
TI Honey for
   cough
AB Honey eased cough.
PY 2020
DI 10.9999/w.1
PM 90000051
DT Article; Retracted Publication
ER

EF
"""
BIBTEX = """% exported
@article{demo, title = {{Honey} for cough}, abstract = {Honey eased {\\"u}ber half.},
  year = 2020, doi = {10.9999/b.1}}
"""


def bibtex(text: str) -> str:
    """An entry with this abstract."""
    return BIBTEX.replace('Honey eased {\\"u}ber half.', text)


ENDNOTE = """<?xml version="1.0"?><xml><records><record><titles><title><style face="normal">Honey
for cough</style></title></titles><dates><year><style>2020</style></year></dates><abstract>Honey
eased cough.</abstract><electronic-resource-num>10.9999/e.1</electronic-resource-num></record>
</records></xml>"""
BASE = """<accession-num>90000061</accession-num><remote-database-name>Medline
</remote-database-name></record>"""
ENW = "%0 Journal Article\n%T Honey for cough\n%D 2020\n%X Honey eased\nhalf.\n%R 10.9999/n.1\n"
OVID = """1. \nTY  - JOUR\nTI  - Honey for cough\nAB  - Honey eased half.\nER  -

Link to the Ovid Full Text: a link\n\nC1  - Database: Embase\n\nSearch Strategy:\n1 honey/ (20)

2. \nTY  - JOUR\nTI  - Zinc\nAB  - Four days.\nER  -
"""
CSV = 'PMID;Title;Abstract;Publication Year\n1;Honey;"Honey; eased\ncough.";2020\n;Zinc;;2021\n'


def read(text: str) -> list[dict[str, Any]]:
    body = text.encode()
    return [*read_citations(body, export_format(body))]


def test_ris_keeps_each_record_also_one_without_its_end() -> None:
    first, second = read(RIS)
    assert first == {
        "title": "Honey for cough",
        "text": "Six trials were pooled. Honey eased cough.",
        "year": "2021/03//",
        "doi": "10.9999/demo.22",
        "pmid": "90000041",
        "publication_types": ["Systematic Review"],
        "keywords": ["Honey", "Cough"],
    }
    assert second == {"title": "Zinc for colds", "text": "Colds lasted four days."}


def test_ris_keeps_each_part_of_an_abstract_and_lines_that_only_look_like_tags() -> None:
    [record] = read(
        "TY  - JOUR\nTI  - Zinc\nAB  - \nN2  - Colds lasted four days.\nN2  - The odds were\n"
        "OR - 2.3 and favoured zinc.\nSE - 0.2 was small.\nER -\n"
    )
    assert record["text"] == (
        "Colds lasted four days.\n\nThe odds were OR - 2.3 and favoured zinc. SE - 0.2 was small."
    )
    [narrow] = read("TY - JOUR\nTI - Zinc\nAB - Four days.\nPY - 2020\nER -\n")
    assert (narrow["text"], narrow["year"]) == ("Four days.", "2020")


def test_medline_tells_a_retraction_by_its_notice() -> None:
    first, second = read(MEDLINE)
    assert first["title"] == "Zinc lozenges for the common cold: a trial."
    assert (first["pmid"], first["pmcid"], first["doi"]) == ("90000021", "PMC900", "10.9999/z.1")
    assert first["publication_types"] == ["Randomized Controlled Trial", "Retracted Publication"]
    assert first["mesh"] == ["Common Cold"]
    assert second["title"] == "Honey."


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (WOS, {"title": "Honey for cough", "year": "2020", "doi": "10.9999/w.1",
               "pmid": "90000051", "publication_types": ["Article", "Retracted Publication"]}),
        (BIBTEX, {"title": "Honey for cough", "text": "Honey eased über half.", "year": "2020"}),
        (bibtex(r"did \textit{not} help, \emph{nor} {\textless}b{\textgreater}"),
         {"text": "did not help, nor <b>"}),
        (bibtex(r"P{\textless}0.001, \textgreater{} 10, 20{\textpm}3 {\textmu}g, $\leq$5, $\ge 2$"),
         {"text": "P<0.001, > 10, 20±3 μg, ≤5, ≥2"}),
        (bibtex(r"10{\textsuperscript{6}}, 10$^{6}$, 10\textsuperscript{-3}, CO\textsubscript{2}"),
         {"text": "10<sup>6</sup>, 10<sup>6</sup>, 10<sup>-3</sup>, CO2"}),
        (bibtex(r"HR 0.5 {\textendash} 0.9; 5\,mg; 5~mg; $p<0.05$; 5\%; $\kappa$ 0.7; \'e"),
         {"text": "HR 0.5 – 0.9; 5 mg; 5 mg; p<0.05; 5%; κ 0.7; é"}),
        (bibtex(r"20\textdegree{}C, $\alpha$-blocker, \c{c}, \~{n}, \l{}"),
         {"text": "20°C, α-blocker, ç, ñ, ł"}),
        (ENW, {"title": "Honey for cough", "text": "Honey eased half.", "year": "2020",
               "doi": "10.9999/n.1"}),
        (f"{ENW}%U https://pubmed.ncbi.nlm.nih.gov/90000062/\n", {"pmid": "90000062"}),
        (f"{ENW}%M 90000063\n%~ MEDLINE\n", {"pmid": "90000063"}),
        (ENDNOTE.replace("</record>", BASE), {"pmid": "90000061"}),
        (ENDNOTE, {"title": "Honey for cough", "year": "2020", "doi": "10.9999/e.1"}),
    ],
)  # fmt: skip
def test_other_formats_by_their_first_lines(text: str, wanted: dict[str, Any]) -> None:
    [record] = read(text)
    assert wanted.items() <= record.items()


def test_a_table_saved_as_text_is_known_by_its_columns() -> None:
    table = "Author\tTitle\tYear\tAbstract\nA B\tHoney\t2020\tHoney eased cough.\n"
    assert export_format(table.encode(), ".txt") == "csv"
    assert next(read_citations(table.encode(), "csv"))["text"] == "Honey eased cough."
    assert export_format(b"A title\tand an abstract that goes on.\n", ".txt") == ""


@pytest.mark.parametrize(
    "head",
    ["Title,Abstract,Published Year,Medline PMID", "TI,AB,PY,PM"],
)
def test_the_columns_of_databases_have_their_own_names(head: str) -> None:
    for mark, suffix in ((",", ".csv"), ("\t", ".txt")):
        table = f"{head}\nHoney,It eased cough.,2020,90000064\n".replace(",", mark)
        [record] = read_citations(table.encode(), export_format(table.encode(), suffix))
        assert (record["year"], record["pmid"]) == ("2020", "90000064")


def test_what_ovid_writes_between_records_is_no_part_of_them() -> None:
    assert [(each["title"], each["text"]) for each in read(OVID)] == [
        ("Honey for cough", "Honey eased half."),
        ("Zinc", "Four days."),
    ]


def test_csv_by_the_names_of_its_columns() -> None:
    first, second = read_citations(CSV.encode(), export_format(CSV.encode(), ".csv"))
    assert first == {"title": "Honey", "text": "Honey; eased\ncough.", "year": "2020", "pmid": "1"}
    assert "text" not in second
    with pytest.raises(Unparsable, match="no column 'abstract'; the columns are a,title"):
        next(read_citations(b"a,title\n1,2\n", "csv"))


@pytest.mark.parametrize(
    "text", ["Pain fell - a lot.", "PT - Physiotherapy helps.", "@mention", ""]
)
def test_prose_is_no_export(text: str) -> None:
    assert export_format(text.encode(), ".txt") == ""


def test_a_mixed_folder_just_works(tmp_path: Path) -> None:
    """Each format by its content, packed or not; the same PMID of two exports counts once."""
    (tmp_path / "a.txt").write_text(MEDLINE)
    (tmp_path / "b.ris").write_text(RIS)
    (tmp_path / "c.csv").write_text(CSV)
    (tmp_path / "d.nbib.gz").write_bytes(gzip.compress(MEDLINE.encode()))
    (tmp_path / "e.xml").write_text(ENDNOTE)
    book = "<PubmedBookArticle><BookDocument><PMID>7</PMID><Abstract><AbstractText>Rest."
    book += "</AbstractText></Abstract></BookDocument></PubmedBookArticle>"
    (tmp_path / "f.xml").write_text(f"<PubmedArticleSet>{book}</PubmedArticleSet>")
    with zipfile.ZipFile(tmp_path / "g.zip", "w") as archive:
        archive.writestr("in/one.md", "Walking helps knees.")
        archive.writestr("__MACOSX/in/._one.md", "x")
        archive.writestr("in/two.exe", "MZ")
        archive.writestr("in/two.md.gz", gzip.compress(b"Rest helps knees."))
        archive.writestr("in/cut.md.gz", gzip.compress(b"Rest helps knees.")[:-9])
    with tarfile.open(tmp_path / "h.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("../paper.txt")
        info.size = 11
        tar.addfile(info, io.BytesIO(b"Rest helps."))
    (tmp_path / "i.zip").write_bytes(b"PK\x03\x04 cut")
    (tmp_path / "j.txt").write_text("Plain text stays a document.")
    records = list(ReadFolder(path=str(tmp_path)).scan())
    assert [(r.source, r.source_id, r.reason) for r in records] == [
        ("a.txt:1", "90000021", ""),
        ("a.txt:2", "90000022", ""),
        ("b.ris:1", "90000041", ""),
        ("b.ris:2", "b.ris:2", ""),
        ("c.csv:1", "1", ""),
        ("c.csv:2", "c.csv:2", "no_text"),
        ("d.nbib.gz/d.nbib:1", "90000021", "duplicate_id"),
        ("d.nbib.gz/d.nbib:2", "90000022", "duplicate_id"),
        ("e.xml:1", "e.xml:1", ""),
        ("f.xml:1", "7", ""),
        ("g.zip/in/one.md", "g.zip/in/one.md", ""),
        ("g.zip/in/two.exe", "g.zip/in/two.exe", "unsupported_format"),
        ("g.zip/in/two.md", "g.zip/in/two.md", ""),
        ("g.zip/in/cut.md.gz", "g.zip/in/cut.md.gz", "unsupported_format"),
        ("h.tar.gz/../paper.txt", "h.tar.gz/../paper.txt", ""),
        ("i.zip", "i.zip", "broken_archive"),
        ("j.txt", "j.txt", ""),
    ]
    rows = parse_documents(raw_table(records)).to_pylist()
    made = {row["source"]: row for row in rows if not row["reject"]}
    assert len(made) == len([record for record in records if not record.reason])
    assert (made["b.ris:1"]["year"], made["b.ris:1"]["pmid"]) == (2021, "90000041")
    assert json.loads(made["e.xml:1"]["metadata"])["export"] == "e.xml"
    assert made["f.xml:1"]["text"] == "Rest."


NEWER = """
PMID- 90000021
TI  - Zinc lozenges.
AB  - Symptoms lasted 4.1 days.
LID - 10.9999/z.1 [doi]
PT  - Retracted Publication
"""


def said(records: list[RawRecord]) -> list[tuple[str, str]]:
    return [(row["about"], row["standing"]) for row in read_notices(raw_table(records)).to_pylist()]


def test_a_retraction_in_a_later_export_counts_for_the_record_of_the_earlier(
    tmp_path: Path,
) -> None:
    plain = NEWER.replace("Retracted Publication", "Journal Article")
    for year, text in (("2019", plain), ("2024", NEWER), ("2025", NEWER)):
        (tmp_path / f"search-{year}.nbib").write_text(text)
    records = list(ReadFolder(path=str(tmp_path)).scan())
    assert [(each.source_id, each.reason) for each in records] == [
        ("90000021", ""), ("90000021", ""), ("90000021", "duplicate_id"),
    ]  # fmt: skip
    assert b"Symptoms" not in records[1].body
    ids = ("", "pmid:90000021", "doi:10.9999/z.1")
    assert said(records) == [(about, "retracted") for about in ids]
    rows = parse_documents(raw_table(records)).to_pylist()
    reasons = [(row["reject"] or {}).get("reason") for row in rows]
    assert reasons == [None, "no_text", "duplicate_id"]


@pytest.mark.parametrize(
    ("tag", "own", "other"),
    [
        ("ECI", "concern", "concern_notice"), ("PRIN", "concern", ""), ("RRI", "retracted", ""),
        ("UIN", "superseded", ""), ("CRI", "superseded", ""), ("EIN", "corrected", ""),
        ("RIN", "retracted", "retraction_notice"), ("ROF", "retraction_notice", "retracted"),
        ("ECF", "concern_notice", "concern"), ("PROF", "retraction_notice", "concern"),
        ("EFR", "correction_notice", "corrected"), ("UOF", "ok", "superseded"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("line", ["AB  - Symptoms lasted 4.1 days.\n", ""])
def test_medline_says_by_its_tags_what_pubmed_says_in_xml(
    tmp_path: Path, tag: str, own: str, other: str, line: str
) -> None:
    told = f"{tag:4}- Lancet. 2020 Mar 1;1(2):3.\n      doi: 10.9999/n. PMID: 333\n"
    (tmp_path / "a.nbib").write_text(f"PMID- 90000021\nTI  - Zinc.\n{line}{told}")
    records = list(ReadFolder(path=str(tmp_path)).scan())
    rows = read_notices(raw_table(records)).to_pylist()
    found = [(row["about"], row["standing"], row["link"]) for row in rows]
    assert ("", own, "pmid:333") in found
    assert (("pmid:90000021", own, "pmid:333") in found) == (not line and own != "ok")
    assert [row["standing"] for row in rows if row["about"] == "pmid:333"] == [other] * bool(other)


def test_a_retraction_in_a_later_file_of_pubmed_counts_too(tmp_path: Path) -> None:
    types = "<PublicationTypeList><PublicationType>{}</PublicationType></PublicationTypeList>"
    for year, kind in (("2019", "Journal Article"), ("2024", "Retracted Publication")):
        (tmp_path / f"{year}.xml").write_text(
            "<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>7</PMID><Article>"
            "<ArticleTitle>Zinc</ArticleTitle><Abstract><AbstractText>Four days.</AbstractText>"
            f"</Abstract>{types.format(kind)}</Article></MedlineCitation></PubmedArticle>"
            "</PubmedArticleSet>"
        )
    records = list(ReadFolder(path=str(tmp_path)).scan())
    assert said(records) == [("", "retracted"), ("pmid:7", "retracted")]
    assert [b"Four days" in each.body for each in records] == [True, False]


def test_a_record_without_an_abstract_speaks_and_leaves_room_for_one_with_it(
    tmp_path: Path,
) -> None:
    bare = "".join(line for line in NEWER.splitlines(True) if not line.startswith("AB"))
    (tmp_path / "a.nbib").write_text(bare)
    (tmp_path / "b.nbib").write_text(NEWER.replace("Retracted Publication", "Letter"))
    records = list(ReadFolder(path=str(tmp_path)).scan())
    assert ("pmid:90000021", "retracted") in said(records)
    rows = parse_documents(raw_table(records)).to_pylist()
    assert [row["source"] for row in rows if not row["reject"]] == ["b.nbib:1"]


def test_one_record_of_two_exports_without_an_id_counts_once(tmp_path: Path) -> None:
    """The second record of RIS here has none; a DOI tells copies in the whole build."""
    (tmp_path / "a.ris").write_text(RIS)
    (tmp_path / "b.ris.gz").write_bytes(gzip.compress(RIS.encode()))
    records = ReadFolder(path=str(tmp_path)).scan()
    refused = ["", "", "duplicate_id", "duplicate_content"]
    assert [record.reason for record in records] == refused


def reasons(records: Iterable[RawRecord]) -> dict[str, str]:
    return {record.source: record.reason for record in records}


def test_the_rows_before_a_broken_one_are_kept(tmp_path: Path) -> None:
    rows = [f"{n},Zinc {n},Four days." for n in range(1, 6)]
    rows[2] = f'3,Zinc 3,"{"x" * 140_000}\nand, the, rest of it"'
    (tmp_path / "a.csv").write_text("\n".join(["pmid,title,abstract", *rows]))
    records = list(ReadFolder(path=str(tmp_path)).scan())
    assert [(each.source_id, each.reason) for each in records] == [
        ("1", ""), ("2", ""), ("a.csv", "broken_csv"),
    ]  # fmt: skip
    assert "line 4: field larger than field limit" in records[-1].detail
    assert "no row from there on" in records[-1].detail


def test_an_entry_of_bibtex_that_is_dropped_is_told(tmp_path: Path) -> None:
    entry = "@article{{{0}, title = {{{1}}}, abstract = {{Honey eased cough.}}}}\n\n"
    told = [entry.format("a", "A"), entry.format("b", "B {open"), entry.format("c", "C")]
    (tmp_path / "a.bib").write_text("@comment{x}\n@string{j = {J}}\n" + "".join(told))
    records = list(ReadFolder(path=str(tmp_path)).scan())
    assert [each.reason for each in records] == ["", "", "broken_bibtex"]
    assert records[-1].detail == "a.bib: 2 of 3 entries could be read"


def test_a_damaged_member_of_a_zip_costs_itself(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for n in range(4):
            archive.writestr(f"{n}.md", f"Walking helps {n} knees.")
    body = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "a.zip").write_bytes(body.replace(b"helps 1 knees", b"harms 1 knees"))
    records = list(ReadFolder(path=str(tmp_path)).scan())
    assert reasons(records) == {
        "a.zip/0.md": "", "a.zip/1.md": "broken_archive", "a.zip/2.md": "", "a.zip/3.md": "",
    }  # fmt: skip
    assert records[1].detail == "a.zip/1.md: Bad CRC-32 for file '1.md'"


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz"])
def test_of_one_name_in_an_archive_the_last_file_counts(tmp_path: Path, name: str) -> None:
    told = [("g.md", "The dose is 5 mg."), ("h.md", "Rest."), ("g.md", "The dose is 50 mg.")]
    if name == "a.zip":
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member, text in told:
                archive.writestr(member, text)
    else:
        with tarfile.open(tmp_path / name, "w:gz" if name.endswith("gz") else "w") as tar:
            for member, text in told:
                info = tarfile.TarInfo(member)
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))
    records = list(ReadFolder(path=str(tmp_path)).scan())
    assert [(each.source, each.body.decode(), each.reason) for each in records] == [
        (f"{name}/h.md", "Rest.", ""), (f"{name}/g.md", "The dose is 50 mg.", ""),
    ]  # fmt: skip


def test_of_a_damaged_tar_what_stands_before_the_damage_is_read(tmp_path: Path) -> None:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for n in range(3):
            info = tarfile.TarInfo(f"{n}.md")
            info.size = 60_000
            tar.addfile(info, io.BytesIO(str(n).encode() * 60_000))
    (tmp_path / "a.tar").write_bytes(whole.getvalue()[:150_000])
    records = list(ReadFolder(path=str(tmp_path)).scan())
    assert reasons(records) == {
        "a.tar/0.md": "", "a.tar/1.md": "", "a.tar": "broken_archive",
    }  # fmt: skip


def test_a_member_over_the_cap_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("big.txt", "x" * 5_000)
        archive.writestr("small.txt", "Rest helps.")
    big, small = ReadFolder(path=str(tmp_path), max_file_bytes=1_000).scan()
    assert (big.source, big.reason) == ("a.zip/big.txt", "too_large")
    assert isinstance(small, RawRecord) and not small.reason


def test_records_of_ris_without_a_type_end_where_they_say_so() -> None:
    one = "AU  - Adams B\nTI  - Walking\nAB  - Pain fell.\nPY  - 2021\nER  - \n"
    found = read_citations((one + "\n" + one.replace("Walking", "Rest")).encode(), "ris")
    assert [record["title"] for record in found] == ["Walking", "Rest"]


@pytest.mark.parametrize(
    ("told", "doi"),
    [
        ("10.1371/journal.pmed.1001518", "10.1371/journal.pmed.1001518"),
        ("doi:10.1371/JOURNAL.pmed.1001518.", "10.1371/journal.pmed.1001518"),
        ("(https://doi.org/10.9999/demo.h21)", "10.9999/demo.h21"),
        ("10.1016/S0140-6736(05)67889-7,", "10.1016/s0140-6736(05)67889-7"),
        ("10.1016/S0140-6736(05)", "10.1016/s0140-6736(05)"),
        ("10.1186/s12934\u2011018\u20111017\u20115", "10.1186/s12934-018-1017-5"),
        ("https://doi.org/10.1016%2FS0140-6736%2805%291", "10.1016/s0140-6736(05)1"),
        ("see 10.5/12 mm", ""),
        ("", ""),
    ],
)
def test_a_doi_is_found_without_what_stands_around_it(told: str, doi: str) -> None:
    assert doi_of(told) == doi


def test_a_pmcid_has_its_letters_and_a_pmid_its_digits() -> None:
    assert [pmcid_of(told) for told in ("9000001", "PMC9000001", "pmc 9000001.1")] == [
        "PMC9000001"
    ] * 3
    assert [pmid_of(told) for told in ("PMID: 123", 123, "0123", "0", "x12", "PMC12")] == [
        "123", "123", "123", "", "", "",
    ]  # fmt: skip
    pmc = "https://www.ncbi.nlm.nih.gov/pmc/articles/PMC123/"
    assert (pmcid_of(pmc), pmid_of(pmc)) == ("PMC123", "")
    pubmed = "https://pubmed.ncbi.nlm.nih.gov/123/"
    assert (pmid_of(pubmed), pmcid_of(pubmed)) == ("123", "")


def test_metadata_keep_what_is_an_id_and_all_else() -> None:
    told = {"pmid": "n/a", "pmcid": "12", "doi": "doi:10.1234/A", "journal": "J"}
    assert plain_ids({**told}) == {"journal": "J", "pmcid": "PMC12", "doi": "10.1234/a"}
