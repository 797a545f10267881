from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.step import Function, Place, Step
from srrag.systems.rasrag.search_tree import SearchTree
from srrag.systems.rasrag.thresholds import Thresholds
from tests.unit.index.forests import Book, forest_place, stu, unit

X, Y, Z = [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]
BOOK: Book = {
    "1": [[X, [0.8, 0.6, 0]], [Y, Z]],
    "2": [[Y, [0, 0.9, 0.43589]], [Z]],
}
BOUNDS = Thresholds(
    btu_definite=0.99, btu_candidate=0.5, stu_definite=0.95, stu_candidate=0.7, stu_uncertain=0.1
)


@dataclass(frozen=True, kw_only=True)
class Products(Step):
    """Scores a unit by its product with the question; knows the vectors of BOOK."""

    hits: str = "hits_none"
    value: float | None = None

    reads = ("query_vector", "hits_none")
    writes = pa.schema([])

    def open(self, at: Place) -> Function:
        raise AssertionError

    def scorer(self, at: Place) -> Any:
        vectors = {
            stu(chapter, n, m): unit(numbers)
            for chapter, btus in BOOK.items()
            for n, stus in enumerate(btus)
            for m, numbers in enumerate(stus)
        }

        def score(batch: pa.Table, ids: pa.Array, offsets: np.ndarray) -> np.ndarray:
            queries = [
                np.frombuffer(each, np.float32) for each in batch["query_vector"].to_pylist()
            ]
            rows = np.repeat(np.arange(len(queries)), np.diff(offsets))
            found = [
                queries[row] @ vectors[name]
                for row, name in zip(rows, ids.to_pylist(), strict=True)
            ]
            return np.array(found, float) if self.value is None else np.full(len(rows), self.value)

        return score


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return forest_place(BOOK, tmp_path_factory.mktemp("book"))


def asked(*rows: tuple[Sequence[float], str]) -> pa.Table:
    """Questions: a vector, and the title that their keywords are."""
    from srrag.model.embed import load
    from srrag.model.encoder import Encoder

    titles = load(Encoder()).encode([title for _, title in rows], "query")
    return pa.table(
        {
            "text": [title for _, title in rows],
            "query_vector": pa.array([unit(v).tobytes() for v, _ in rows], pa.binary()),
            "keyword_vector": pa.array([each.tobytes() for each in titles], pa.binary()),
            "keywords": pa.array([[title] for _, title in rows], pa.list_(pa.string())),
        }
    )


def searched(step: SearchTree, table: pa.Table, at: Place) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = step.open(at)(table).to_pylist()
    return rows


def names(row: dict[str, Any]) -> list[str]:
    return [hit["unit_id"] for hit in row["hits"]]


def test_without_thresholds_every_unit_of_the_best_chapter_is_ranked(at: Place) -> None:
    (row,) = searched(SearchTree(scorer=Products(), roots=1), asked((X, "Chapter 1")), at)
    assert names(row)[:2] == [stu("1", 0, 0), stu("1", 0, 1)]
    assert len(row["hits"]) == 4
    assert row["pairs_scored"] == 4
    assert row["tree_trace"] == [
        {"root": "Chapter 1", "btu_definite": 0, "btu_candidate": 0, "stu_scored": 4,
         "outcome": "all"}
    ]  # fmt: skip


def test_of_two_roots_the_one_with_the_better_mean_of_btus_leads(at: Place) -> None:
    """(0, .8, .6): mean BTU scores (.25 + .99)/2 of chapter 1, (.91 + .6)/2 of chapter 2."""
    step = SearchTree(scorer=Products(), roots=2)
    (row,) = searched(step, asked(([0, 0.8, 0.6], "Chapter 1")), at)
    assert row["tree_trace"][0]["root"] == "Chapter 2"
    (row,) = searched(step, asked((X, "Chapter 1")), at)
    assert row["tree_trace"][0]["root"] == "Chapter 1"


def test_the_cases_of_equations_4_and_5(at: Place) -> None:
    """Each question of chapter 2, or 1; the outcomes by hand."""
    step = SearchTree(scorer=Products(), set_to=BOUNDS, roots=1)
    rows = searched(
        step,
        asked(
            (Z, "Chapter 2"),  # BTU 1 is Z itself: 1 > .99
            (Y, "Chapter 2"),  # BTU 0 .97 is a candidate; its first STU 1 > .95
            ([0, 0.9, -0.43589], "Chapter 2"),  # BTU 0: .77; STUs .9 and .62: one above .7
            ([0.8, -0.6, 0], "Chapter 1"),  # BTU 0 .57; STUs .8, .28
        ),
        at,
    )
    assert [row["tree_trace"][-1]["outcome"] for row in rows] == [
        "definite_btu", "definite_stu", "candidate", "candidate",
    ]  # fmt: skip
    assert names(rows[0]) == [stu("2", 1, 0)]
    assert names(rows[1]) == [stu("2", 0, 0)]
    assert names(rows[2]) == [stu("2", 0, 0)]
    assert names(rows[3]) == [stu("1", 0, 0)]
    assert rows[0]["pairs_scored"] == 2 + 1
    assert rows[1]["pairs_scored"] == 2 + 2


def test_the_next_chapters_are_searched_until_one_gives_candidates(at: Place) -> None:
    step = SearchTree(scorer=Products(), set_to=BOUNDS, roots=1)
    (row,) = searched(step, asked((X, "Chapter 2")), at)
    assert [each["outcome"] for each in row["tree_trace"]] == ["nothing", "definite_stu"]
    assert names(row) == [stu("1", 0, 0)]


def test_at_most_most_roots_more_and_then_what_was_held(at: Place) -> None:
    """No STU is a candidate: BTU 0 of chapter 2 and BTU 1 of chapter 1 are looked into."""
    high = Thresholds(
        btu_definite=0.9999, btu_candidate=0.5, stu_definite=5, stu_candidate=4, stu_uncertain=0.1
    )
    query = ([0.1, 0.9, 0.2], "Chapter 2")
    steps = [SearchTree(scorer=Products(), set_to=high, roots=1, most_roots=n) for n in (0, 5)]
    stopped, all_of_it = (searched(step, asked(query), at)[0] for step in steps)
    assert len(stopped["tree_trace"]) == 1
    assert set(names(stopped)) == {stu("2", 0, 0), stu("2", 0, 1)}
    assert len(all_of_it["tree_trace"]) == 2
    assert set(names(all_of_it)) == {*names(stopped), stu("1", 1, 0), stu("1", 1, 1)}


def test_a_book_of_one_chapter(tmp_path: Path) -> None:
    at = forest_place({"1": [[X]]}, tmp_path)
    (row,) = searched(SearchTree(scorer=Products()), asked((X, "Pain")), at)
    assert names(row) == [stu("1", 0, 0)]


def test_scores_that_are_no_number_are_refused(at: Place) -> None:
    with pytest.raises(ValueError, match="not a number"):
        searched(SearchTree(scorer=Products(value=float("nan"))), asked((X, "Chapter 1")), at)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="roots is 1 or 2"):
        SearchTree(scorer=Products(), roots=3)
    with pytest.raises(ValueError, match="Products scores no texts"):
        SearchTree(scorer=Products(), scores="texts")
    with pytest.raises(ValueError, match="scores is 'words'"):
        SearchTree(scorer=Products(), scores="words")  # type: ignore[arg-type]


def test_one_threshold_is_moved() -> None:
    step = SearchTree(scorer=Products(), set_to=BOUNDS, moved={"stu_candidate": 0.1})
    assert step.bounds() == replace(BOUNDS, stu_candidate=BOUNDS.stu_candidate + 0.1)
    with pytest.raises(ValueError, match="out of order: stu_definite"):
        SearchTree(scorer=Products(), set_to=BOUNDS, moved={"stu_candidate": 0.5}).bounds()
    with pytest.raises(ValueError, match="no threshold 'btu'"):
        SearchTree(scorer=Products(), moved={"btu": 0.5})
