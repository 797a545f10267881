from srrag.answer.clinical import as_bibtex, as_ris, reference_line
from srrag.answer.evidence import Evidence, papers_of


def test_references_hold_what_is_known_and_escape_the_rest() -> None:
    item = Evidence(
        number=4, title="Rest & 50% {less}", pmid="123", year=2020, grade="C",
        study="randomised trial", source_id="s", standing="retracted",
    )  # fmt: skip
    papers = papers_of([item], {4})
    ris = as_ris(papers).split("\r\n")
    assert ris[:4] == ["TY  - JOUR", "TI  - Rest & 50% {less}", "PY  - 2020", "AN  - 123"]
    assert "ER  - " in ris and any("retracted" in line for line in ris)
    told = as_bibtex(papers)
    assert r"title = {{Rest \& 50\% \{less\}}}" in told and "@article{pmid123," in told
    line = reference_line(papers[0], {4})
    assert line.startswith("[4] Rest & 50% {less}. 2020. PMID 123. Grade C (randomised trial)")


def test_a_paper_without_title_pmid_and_year_goes_by_its_own_id() -> None:
    papers = papers_of([Evidence(number=1, source_id="a b/c")], {1})
    assert (
        as_ris(papers) == "TY  - JOUR\r\nTI  - a b/c\r\nID  - a b/c\r\nN1  - No grade\r\nER  - \r\n"
    )
    assert as_bibtex(papers) == "@article{abc,\n  title = {{a b/c}},\n  note = {No grade},\n}\n"
    assert reference_line(papers[0], set()) == " a b/c. No grade."
