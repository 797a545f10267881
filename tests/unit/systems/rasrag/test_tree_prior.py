from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from srrag.core.hits import FoundWindows
from srrag.core.step import Place
from srrag.systems.rasrag.tree_prior import RerankTreePrior, best_of
from tests.unit.index.forests import Book, forest_place, stu, unit

X, Y = [1.0, 0.0], [0.0, 1.0]
BOOK: Book = {"1": [[X, X], [X]], "2": [[Y, [0.9, 0.43589]]]}
UNITS = [stu("1", 0, 0), stu("1", 0, 1), stu("1", 1, 0), stu("2", 0, 0), stu("2", 0, 1)]


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return forest_place(BOOK, tmp_path_factory.mktemp("book"))


def asked(*sparse: dict[int, float]) -> pa.Table:
    """Questions along X that found all units, and these by BM25."""
    found = [(pa.array(UNITS, pa.string()), np.zeros(len(UNITS))) for _ in sparse]
    lexical = [
        (pa.array([UNITS[n] for n in each], pa.string()), np.array([*each.values()], float))
        for each in sparse
    ]
    return pa.table(
        {
            "hits_fused": FoundWindows.of(found).hits(),
            "hits_sparse": FoundWindows.of(lexical).hits(),
            "query_vector": pa.array([unit(X).tobytes()] * len(sparse), pa.binary()),
        }
    )


def scores(step: RerankTreePrior, table: pa.Table, at: Place) -> list[dict[int, float]]:
    rows = step.open(at)(table)["hits"].to_pylist()
    return [{UNITS.index(hit["unit_id"]): hit["score"] for hit in row} for row in rows]


def test_without_a_prior_it_is_the_mean_of_both_channels(at: Place) -> None:
    """Cosines 1, 1, 1, 0, .9; BM25 only of unit 3, which is stretched to 1."""
    (row,) = scores(RerankTreePrior(chapter=0, btu=0), asked({3: 7.0}), at)
    assert row == pytest.approx({0: 0.5, 1: 0.5, 2: 0.5, 3: 0.5, 4: 0.45}, abs=1e-4)


def test_a_chapter_lifts_its_units(at: Place) -> None:
    """Means of the best two: 1 + 0 of chapter 1, .45 + 0 of chapter 2; unit 4 falls behind."""
    step = RerankTreePrior(chapter=0.5, btu=0, top=2)
    (row,) = scores(step, asked({0: 1.0, 1: 1.0}), at)
    assert row == pytest.approx({0: 1.5, 1: 1.5, 2: 1.0, 3: 0.0, 4: 0.45}, abs=1e-4)


def test_a_unit_of_another_chapter_may_still_win(at: Place) -> None:
    (row,) = scores(RerankTreePrior(chapter=0.1, btu=0.1), asked({4: 9.0, 0: 1.0}), at)
    assert max(row, key=lambda unit: row[unit]) == 4


def test_best_of_counts_missing_ones_as_nothing() -> None:
    found = best_of(np.array([1.0, 3, 2, 5]), np.array([0, 0, 0, 1]), np.array([4, 4, 4, 4]), 2)
    assert found.tolist() == [2.5, 2.5, 2.5, 2.5]


@pytest.mark.parametrize("wrong", [{"chapter": -1.0}, {"btu": float("nan")}, {"top": 0}])
def test_impossible_weights_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RerankTreePrior(**wrong)  # type: ignore[arg-type]


def test_no_hit_at_all(at: Place, tmp_path: Path) -> None:
    table = asked({})
    empty = FoundWindows.of([(pa.array([], pa.string()), np.zeros(0))]).hits()
    table = table.set_column(0, "hits_fused", empty)
    assert scores(RerankTreePrior(), table, at) == [{}]
