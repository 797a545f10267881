from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.answer.select.evidence import Hit, SelectEvidence, fill_quota
from srrag.core.schema import EVIDENCE, HITS
from srrag.core.spec import content_id, evidence_id
from srrag.core.standing import Standings
from srrag.core.step import Place
from srrag.core.units import EVIDENCE_COLUMNS

GRADES = {2: "A", 9: "A", 20: "A", 21: "A"}


class ThreeChunks:
    """Windows w0, w1, … of which each four belong to one chunk, most of them of grade C."""

    def take(self, unit_ids: Sequence[str], columns: Sequence[str]) -> pa.Table:
        return self.take_evidence(unit_ids).select(list(columns))

    def take_evidence(self, unit_ids: Sequence[str]) -> pa.Table:
        numbers = [int(unit_id[1:]) for unit_id in unit_ids]
        text = {name: [f"{name} {n}" for n in numbers] for name in EVIDENCE_COLUMNS}
        columns = text | {
            "unit_id": unit_ids,
            "parent_id": [f"c{n // 4}" for n in numbers],
            "year": [2000 + n for n in numbers],
            "grade": [GRADES.get(n, "C") for n in numbers],
            "char_start": [100 * n for n in numbers],
            "char_end": [100 * n + 50 for n in numbers],
        }
        counts = ("year", "char_start", "char_end")
        types = {name: pa.int32() if name in counts else pa.string() for name in columns}
        return pa.table({name: pa.array(columns[name], types[name]) for name in EVIDENCE_COLUMNS})


def questions(*rankings: list[int]) -> pa.Table:
    hits = [
        [{"unit_id": f"w{n}", "score": -float(i), "rank": i + 1} for i, n in enumerate(ranking)]
        for ranking in rankings
    ]
    return pa.table({"text": [""] * len(hits), "hits": pa.array(hits, HITS)})


def chosen(step: SelectEvidence, *rankings: list[int]) -> list[list[str]]:
    table = step.bind(ThreeChunks())(questions(*rankings))
    return [[item["unit_id"] for item in row] for row in table["evidence"].to_pylist()]


def test_few_windows_of_a_chunk_and_never_more_than_found() -> None:
    step = SelectEvidence(k=4, max_per_chunk=3)
    assert chosen(step, [3, 2, 1, 0, 4, 8, 9], [], [7]) == [["w3", "w2", "w1", "w4"], [], ["w7"]]


def test_defaults_are_those_of_table_s3() -> None:
    assert (SelectEvidence().k, SelectEvidence().max_per_chunk) == (12, 3)
    assert [len(row) for row in chosen(SelectEvidence(), list(range(40)))] == [12]
    assert chosen(SelectEvidence(k=1, max_per_chunk=1), [3, 8]) == [["w3"]]


def test_the_limit_goes_by_rank_within_a_question() -> None:
    hits = [
        {"unit_id": f"w{n}", "score": 0.0, "rank": rank} for n, rank in ((0, 3), (1, 1), (2, 2))
    ]
    table = pa.table({"text": ["", ""], "hits": pa.array([hits, hits[:2]], HITS)})
    found = SelectEvidence(max_per_chunk=2).bind(ThreeChunks())(table)["evidence"].to_pylist()
    assert [[item["unit_id"] for item in row] for row in found] == [["w1", "w2"], ["w1", "w0"]]


@pytest.mark.parametrize(
    ("margin", "expected"),
    [(2.0, ["w3", "w4", "w9"]), (1.9, ["w3", "w4", "w8"]), (0.0, ["w3", "w4", "w8"])],
)
def test_a_grade_a_window_close_to_the_cut_takes_the_last_place(
    margin: float, expected: list[str]
) -> None:
    """The last of the block, w8, scores −2; the best A outside, w9, −4."""
    step = SelectEvidence(k=3, quota=1, quota_margin=margin)
    assert chosen(step, [3, 4, 8, 12, 9, 20]) == [expected]


def test_the_quota_is_off_by_default_and_changes_nothing_that_holds_an_a() -> None:
    ranking = [3, 4, 8, 12, 9]
    assert chosen(SelectEvidence(k=3), ranking) == [["w3", "w4", "w8"]]
    full = SelectEvidence(k=3, quota=1, quota_margin=99)
    assert chosen(full, [3, 2, 8, 9], [3, 4, 8, 12], [9], []) == [
        ["w3", "w2", "w8"], ["w3", "w4", "w8"], ["w9"], [],
    ]  # fmt: skip


def test_a_quota_of_two_spares_what_fills_it() -> None:
    """Of w4, w8 and w2 (A) the last one of another grade goes first."""
    step = SelectEvidence(k=3, quota=2, quota_margin=99)
    assert chosen(step, [4, 8, 2, 12, 9]) == [["w4", "w2", "w9"]]
    assert chosen(SelectEvidence(k=3, quota=3, quota_margin=99), [4, 8, 2, 12, 9, 20]) == [
        ["w2", "w9", "w20"]
    ]


def test_a_chunk_gives_no_more_for_the_quota() -> None:
    """w20 and w21 are of one chunk, whose place w22 has taken."""
    step = SelectEvidence(k=2, max_per_chunk=1, quota=1, quota_margin=99)
    assert chosen(step, [22, 4, 20, 21, 9]) == [["w22", "w9"]]


@given(
    st.lists(st.booleans(), min_size=1, max_size=20), st.integers(1, 6), st.integers(1, 6),
    st.floats(0, 5),
)  # fmt: skip
def test_what_a_quota_keeps(wanted: list[bool], k: int, quota: int, margin: float) -> None:
    """As many windows as before, best first, none lost of those wanted, none far below the cut."""
    every = [
        Hit(f"w{n}", -float(n), "", "A" if each else "C", "", "") for n, each in enumerate(wanted)
    ]
    before = every[:k]
    block = fill_quota(before, every[k:], min(quota, k), margin)
    assert len(block) == len(before)
    assert sorted(block, key=lambda hit: -hit.score) == block
    gone, came = ([hit for hit in a if hit not in b] for a, b in ((before, block), (block, before)))
    num_before = sum(hit.grade == "A" for hit in before)
    assert sum(hit.grade == "A" for hit in block) <= max(num_before, quota)
    assert all(hit.grade == "C" for hit in gone)
    assert all(new.score >= old.score - margin for new, old in zip(came, gone[::-1], strict=True))


def test_evidence_carries_what_the_index_says() -> None:
    table = SelectEvidence().bind(ThreeChunks())(questions([5]))
    assert table.schema.field("evidence").type == EVIDENCE
    (item,) = table["evidence"].to_pylist()[0]
    assert item["evidence_id"] == content_id("window", "w5") == evidence_id("window", "w5", "any")
    assert (item["kind"], item["char_start"], item["char_end"]) == ("window", 500, 550)
    assert (item["unit_id"], item["grade"], item["year"]) == ("w5", "C", 2005)


def test_place_without_windows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"stage .units. is not built"):
        SelectEvidence().open(Place())
    with pytest.raises(ValueError, match="at least 1"):
        SelectEvidence(k=0)
    with pytest.raises(ValueError, match="quota is 3"):
        SelectEvidence(k=2, quota=3)
    with pytest.raises(ValueError, match="quota_margin"):
        SelectEvidence(quota_margin=-1.0)


class Told(Standings):
    """w1 and w3 are of retracted papers, w5 of one whose later version is the paper of w7."""

    def __init__(self) -> None:
        self.known = True

    def find(self, doc_ids: Sequence[str]) -> tuple[list[str], list[str]]:
        told = {"doc_id 1": "retracted", "doc_id 3": "deleted", "doc_id 5": "superseded"}
        told["doc_id 6"] = "corrected"
        links = {"doc_id 1": "pmid:pmid 9", "doc_id 5": "pmid:pmid 7", "doc_id 6": "pmid:pmid 7"}
        return [told.get(n, "ok") for n in doc_ids], [links.get(n, "") for n in doc_ids]


def test_retracted_papers_are_left_out_and_named() -> None:
    step = SelectEvidence(k=3, max_per_chunk=4)
    row = step.bind(ThreeChunks(), Told())(questions([2, 1, 8, 3, 9])).to_pylist()[0]
    assert [(each["unit_id"], each["standing"]) for each in row["evidence"]] == [
        ("w2", "ok"), ("w8", "ok"), ("w9", "ok"),
    ]  # fmt: skip
    assert [
        (each["title"], each["standing"], each["standing_link"]) for each in row["left_out"]
    ] == [("title 1", "retracted", "pmid:pmid 9")], "w3 would not have been taken anyway"


def test_show_takes_them_with_their_mark() -> None:
    step = SelectEvidence(k=3, max_per_chunk=4, status="show")
    row = step.bind(ThreeChunks(), Told())(questions([2, 1, 8])).to_pylist()[0]
    assert [each["standing"] for each in row["evidence"]] == ["ok", "retracted", "ok"]
    assert row["left_out"] == []
    both = step.bind(ThreeChunks(), Told())(questions([5, 7])).to_pylist()[0]
    assert [each["standing"] for each in both["evidence"]] == ["superseded", "ok"]
    with pytest.raises(ValueError, match="status is 'some'"):
        SelectEvidence(status="some")


@pytest.mark.parametrize("status", ["hide", "show"])
def test_a_copy_of_a_paper_is_neither_taken_nor_named(status: str) -> None:
    class Copied(Told):
        def find(self, doc_ids: Sequence[str]) -> tuple[list[str], list[str]]:
            return ["copy" if n == "doc_id 2" else "ok" for n in doc_ids], ["w1"] * len(doc_ids)

    step = SelectEvidence(k=2, max_per_chunk=4, status=status)
    row = step.bind(ThreeChunks(), Copied())(questions([2, 1, 8])).to_pylist()[0]
    assert [each["unit_id"] for each in row["evidence"]] == ["w1", "w8"]
    assert row["left_out"] == []


def test_a_superseded_paper_gives_way_to_its_later_version_alone() -> None:
    run = SelectEvidence(k=3, max_per_chunk=4).bind(ThreeChunks(), Told())
    both, alone, noticed = run(questions([5, 7, 2], [5, 2], [5, 6, 7])).to_pylist()
    assert [each["unit_id"] for each in both["evidence"]] == ["w7", "w2"]
    assert [each["unit_id"] for each in alone["evidence"]] == ["w5", "w2"]
    assert [each["standing"] for each in both["left_out"]] == ["superseded"]
    assert [each["unit_id"] for each in noticed["evidence"]] == ["w6", "w7"], "beside its erratum"
