from __future__ import annotations

import numpy as np
import pytest

from srrag.algo.pool import pool

# Two sources of one question: the first finds keys 0, 1, 0, the second keys 1, 2.
SOURCE = np.array([0, 0, 0, 1, 1])
KEY = np.array([0, 1, 0, 1, 2])
RANK = np.array([1, 2, 3, 1, 2])
SCORE = np.array([5.0, 4.0, 3.0, 4.5, 1.0])
QUERY = np.zeros(5, np.int64)


def test_max_keeps_the_highest_score_and_the_find_that_has_it() -> None:
    found = pool(QUERY, SOURCE, KEY, RANK, SCORE)
    assert KEY[found.find].tolist() == [0, 1, 2]
    assert found.find.tolist() == [0, 3, 4]
    assert found.score.tolist() == [5.0, 4.5, 1.0]
    assert found.rank.tolist() == [1, 2, 3]


def test_sum_adds_the_best_of_each_source() -> None:
    found = pool(QUERY, SOURCE, KEY, RANK, SCORE, reduce="sum")
    assert KEY[found.find].tolist() == [1, 0, 2]
    assert found.score.tolist() == [8.5, 5.0, 1.0]
    assert found.find.tolist()[0] == 3


def test_rrf_ranks_keys_not_finds() -> None:
    source = np.array([0, 0, 0, 1])
    key, rank = np.array([0, 0, 1, 1]), np.array([1, 2, 3, 1])
    found = pool(np.zeros(4, np.int64), source, key, rank, np.zeros(4), reduce="rrf", k=1)
    # Key 1 is second of the first source's two keys, and first in the second source.
    assert found.score.tolist() == pytest.approx([1 / 3 + 1 / 2, 1 / 2], abs=1e-6)
    assert key[found.find].tolist() == [1, 0]


def test_ties_go_to_the_smaller_key_and_the_first_source() -> None:
    source = np.array([1, 0, 0])
    key, rank = np.array([1, 1, 0]), np.array([1, 1, 2])
    found = pool(np.zeros(3, np.int64), source, key, rank, np.ones(3))
    assert key[found.find].tolist() == [0, 1]
    assert found.find.tolist() == [2, 1]


def test_questions_do_not_mix() -> None:
    query = np.array([1, 0, 1])
    found = pool(
        query, np.zeros(3, np.int64), np.zeros(3, np.int64), np.array([2, 1, 1]), np.ones(3)
    )
    assert found.query.tolist() == [0, 1]
    assert found.find.tolist() == [1, 2]


@pytest.mark.parametrize("reduce", ["max", "sum", "rrf"])
def test_nothing_found(reduce: str) -> None:
    none = np.zeros(0, np.int64)
    found = pool(none, none, none, none, np.zeros(0), reduce=reduce)  # type: ignore[arg-type]
    assert len(found.find) == len(found.rank) == 0


@pytest.mark.parametrize("reduce", ["max", "sum", "rrf"])
def test_the_order_of_the_finds_says_nothing(reduce: str) -> None:
    draw = np.random.default_rng(0)
    query, source = draw.integers(0, 4, 200), draw.integers(0, 3, 200)
    key, score = draw.integers(0, 9, 200), draw.normal(size=200)
    rank = np.zeros(200, np.int64)
    for row in range(4):
        for one in range(3):
            some = np.flatnonzero((query == row) & (source == one))
            rank[some[np.argsort(-score[some])]] = np.arange(1, len(some) + 1)
    whole = pool(query, source, key, rank, score, reduce=reduce)  # type: ignore[arg-type]
    mixed = draw.permutation(200)
    other = pool(
        query[mixed],
        source[mixed],
        key[mixed],
        rank[mixed],
        score[mixed],
        reduce=reduce,  # type: ignore[arg-type]
    )
    assert mixed[other.find].tolist() == whole.find.tolist()
    assert other.score.tolist() == whole.score.tolist()


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(ValueError, match="mean"):
        pool(QUERY, SOURCE, KEY, RANK, SCORE, reduce="mean")  # type: ignore[arg-type]
