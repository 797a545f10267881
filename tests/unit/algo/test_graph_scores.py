from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.algo.graph_scores import (
    best_by_segment,
    best_members,
    candidates,
    inner_products,
    segments,
    triple_lengths,
    triple_scores,
    word_cover,
)

VALUES = np.array([[127, 0], [0, 127], [-127, 0]], np.int8)
SCALE = np.full(3, 1 / 127, np.float16)


def test_inner_products_by_hand() -> None:
    found = inner_products(VALUES, SCALE, np.array([[1.0, 2.0], [0.5, -1.0]]))
    assert found == pytest.approx(np.array([[1, 2, -1], [0.5, -1, -0.5]]), abs=1e-3)


def test_a_query_does_not_feel_the_others() -> None:
    draw = np.random.default_rng(0)
    values = draw.integers(-127, 127, (5000, 48)).astype(np.int8)
    scale = draw.random(5000).astype(np.float16)
    queries = draw.standard_normal((7, 48))
    together = inner_products(values, scale, queries)
    for row, query in enumerate(queries):
        assert np.array_equal(inner_products(values, scale, query[None])[0], together[row])


def test_nothing_to_score_and_nothing_to_ask() -> None:
    assert inner_products(VALUES[:0], SCALE[:0], np.ones((2, 2))).shape == (2, 0)
    assert inner_products(VALUES, SCALE, np.zeros((0, 2))).shape == (0, 3)


def taken(rows: np.ndarray) -> np.ndarray:
    found: np.ndarray = VALUES[rows] * SCALE[rows, None].astype(np.float32)
    return found


def test_a_triple_scores_as_the_sum_of_its_vectors_would() -> None:
    heads, tails = np.array([0, 1, 0, 2, 1]), np.array([1, -1, 2, 0, 1])
    relations, codes = np.array([[0.0, 0.0], [2.0, 0.0]]), np.array([0, 0, 0, 0, 1])
    lengths = triple_lengths(taken, heads, tails, (relations, codes))
    query = np.array([[0.6, 0.8]])
    between = (query @ relations.T)[0][codes]
    found = triple_scores(inner_products(VALUES, SCALE, query)[0], heads, tails, lengths, between)
    # (1, 1) / √2, then an end without a vector, then ends that cancel out.
    assert found[:2] == pytest.approx([1.4 / np.sqrt(2), 0.8], abs=1e-3)
    assert found[2:4] == pytest.approx([0, 0], abs=1e-6)
    # (0, 1) + (2, 0) + (0, 1), of length 2 √2.
    assert found[4] == pytest.approx((1.2 + 1.6) / np.sqrt(8), abs=1e-3)


def test_the_length_of_a_short_triple_is_its_own_and_of_none_is_1() -> None:
    relations, outside = np.array([[0.3, 0.4], [0.0, 0.0]]), np.array([-1, -1])
    found = triple_lengths(taken, outside, outside, (relations, np.array([0, 1])))
    assert found == pytest.approx([0.5, 1.0])


def test_words_cover_a_window_by_their_best_names() -> None:
    """Window 0 holds word 0 twice (the better counts) and word 1; window 2 holds word 1."""
    windows, words = np.array([0, 0, 0, 2]), np.array([0, 1, 0, 1])
    values = np.array([0.2, 1.0, 0.8, 0.5], np.float32)
    found = word_cover(windows, words, values, np.array([3.0, 1.0], np.float32), 3)
    assert found == pytest.approx([(3 * 0.8 + 1) / 4, 0, 0.125])
    light = word_cover(windows, words, values, np.array([0.3, 0.1], np.float32), 3)
    assert light == pytest.approx(found), "a weighted mean, whatever the sum of the weights"
    none = np.zeros(0, np.int64)
    assert not word_cover(none, none, none, np.zeros(0, np.float32), 3).any()


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=6),
    st.lists(st.floats(-1, 1, width=32), min_size=10, max_size=10),
)
def test_best_by_segment_is_the_maximum_of_each(groups: list[list[int]], of: list[float]) -> None:
    scores = np.array(of, np.float32)
    members = np.array([row for group in groups for row in group], np.int64)
    offsets = np.concatenate([[0], np.cumsum([len(group) for group in groups])])
    best = best_by_segment(scores, members, offsets)
    assert len(best) == len(groups)
    chosen = best_members(scores, members, offsets, np.arange(len(groups)))
    for number, group in enumerate(groups):
        assert best[number] == max((scores[row] for row in group), default=-np.inf)
        found = chosen[number]
        assert (found == -1) == (not group)
        if group:
            assert scores[found] == best[number]


def test_a_member_outside_the_limits_is_no_path() -> None:
    scores = np.array([-np.inf, 0.1], np.float32)
    found = best_members(
        scores, np.array([0, 0, 1, 1]), np.array([0, 1, 3, 3, 4]), np.array([3, 0, 1, 2])
    )
    assert found.tolist() == [1, -1, 1, -1]


def test_candidates_keep_all_that_tie_with_the_last() -> None:
    scores = np.array([0.5, 0.3, 0.30000001, 0.9, 0.1, -np.inf], np.float32)
    assert set(candidates(scores, 3, 5)) == {0, 1, 2, 3}
    assert set(candidates(scores, 2, 5)) == {0, 3}
    assert set(candidates(scores, 9, 5)) == {0, 1, 2, 3, 4}


def test_segments_hold_each_member_once_in_order() -> None:
    members, offsets = segments(np.array([2, 0, 2, 2]), np.array([5, 1, 3, 5]), 4)
    assert members.tolist() == [1, 3, 5]
    assert offsets.tolist() == [0, 1, 1, 3, 3]
