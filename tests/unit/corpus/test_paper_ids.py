"""PMID, PMCID and DOI have one form, whatever a file writes."""

import pytest

from srrag.corpus.parsed import doi_of, plain_ids, pmcid_of, pmid_of


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
