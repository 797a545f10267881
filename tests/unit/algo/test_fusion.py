from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.algo.fusion import (
    cosines,
    flat_ranges,
    group_means,
    min_max,
    mmr,
    pool,
    rank_scores,
    reciprocal_rank_fusion,
    top_means,
)
from srrag.algo.terms import tfidf


def arrays(*columns):
    return [np.array(column, dtype=np.int64) for column in columns]


def test_two_channels_by_hand():
    # channel 1: key 7 first, key 8 second; channel 2: key 8 first, key 9 second
    fused = reciprocal_rank_fusion(*arrays([0, 0, 0, 0], [7, 8, 8, 9], [1, 2, 1, 2]))
    assert fused.key.tolist() == [8, 7, 9]
    assert fused.score == pytest.approx([1 / 61 + 1 / 62, 1 / 61, 1 / 62])
    assert fused.rank.tolist() == [1, 2, 3]


def test_queries_do_not_mix():
    fused = reciprocal_rank_fusion(*arrays([1, 0, 1], [5, 5, 6], [1, 3, 2]))
    assert fused.query.tolist() == [0, 1, 1]
    assert fused.key.tolist() == [5, 5, 6]
    assert fused.score == pytest.approx([1 / 63, 1 / 61, 1 / 62])
    assert fused.rank.tolist() == [1, 1, 2]


def test_ties_go_to_the_smaller_key():
    fused = reciprocal_rank_fusion(*arrays([0, 0], [9, 4], [1, 1]))
    assert fused.key.tolist() == [4, 9]
    close = rank_scores(*arrays([0, 0], [9, 4]), np.array([0.50004, 0.50001]), decimals=4)
    assert close.key.tolist() == [4, 9]
    apart = rank_scores(*arrays([0, 0], [9, 4]), np.array([0.50004, 0.50001]), decimals=5)
    assert apart.key.tolist() == [9, 4]


def test_weights_of_channels():
    query, key, rank = arrays([0, 0], [1, 2], [1, 1])
    fused = reciprocal_rank_fusion(query, key, rank, k=0, weight=np.array([1.0, 2.0]))
    assert fused.key.tolist() == [2, 1]
    assert fused.score.tolist() == [2.0, 1.0]


def test_nothing_and_wrong_ranks():
    assert len(reciprocal_rank_fusion(*arrays([], [], [])).key) == 0
    with pytest.raises(ValueError, match="rank 0"):
        reciprocal_rank_fusion(*arrays([0], [0], [0]))


hits = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(1, 300)), min_size=1, max_size=40
)


@given(hits, st.randoms(use_true_random=False))
def test_agrees_with_a_dictionary_in_any_order(rows, random):
    expected = {}
    for query, key, rank in rows:
        expected[query, key] = expected.get((query, key), 0.0) + 1 / (60 + rank)
    fused = reciprocal_rank_fusion(*arrays(*zip(*rows, strict=True)))
    found = dict(zip(zip(fused.query, fused.key, strict=True), fused.score, strict=True))
    assert found == pytest.approx(expected)
    shuffled = random.sample(rows, len(rows))
    again = reciprocal_rank_fusion(*arrays(*zip(*shuffled, strict=True)))
    assert (again.key.tolist(), again.score.tolist()) == (fused.key.tolist(), fused.score.tolist())


def test_min_max_within_each_query():
    stretched = min_max(np.array([2.0, 4.0, 3.0, 7.0, 7.0]), np.array([0, 0, 0, 1, 1]))
    assert stretched.tolist() == [0.0, 1.0, 0.5, 1.0, 1.0]
    assert min_max(np.zeros(0), np.zeros(0)).shape == (0,)


def test_a_score_alone_is_the_best_of_its_query() -> None:
    assert min_max(np.array([5.0]), np.zeros(1, dtype=np.int64)).tolist() == [1.0]


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


def test_by_hand() -> None:
    """Second step: .75·.9 − .25·1 = .425 for the twin, .75·.7 − 0 = .525 for the other."""
    relevance = np.array([1.0, 0.9, 0.7])
    alike = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert mmr(relevance, alike, 3).tolist() == [0, 2, 1]
    assert mmr(relevance, alike, 3, weight=1.0).tolist() == [0, 1, 2]
    assert mmr(np.array([1.0, 0.9, 0.6]), alike, 3).tolist() == [0, 2, 1], ".425 against .45"
    assert mmr(relevance[::-1], alike, 3, weight=0.0).tolist() == [0, 2, 1]
    assert mmr(relevance, alike, 1).tolist() == [0]
    assert mmr(np.zeros(3), alike, 9).tolist() == [0, 2, 1]
    assert mmr(np.zeros(0), np.zeros((0, 0)), 4).tolist() == []


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_a_weight_outside(weight: float) -> None:
    with pytest.raises(ValueError, match="weight"):
        mmr(np.ones(1), np.ones((1, 1)), 1, weight)


def test_shapes_that_disagree() -> None:
    with pytest.raises(ValueError, match="shape"):
        mmr(np.ones(2), np.ones((3, 3)), 1)


def test_tfidf_by_hand() -> None:
    """Three texts: "a" is in two (idf ln(4/3) + 1), "b" in one (ln(4/2) + 1)."""
    found = tfidf([["a", "b"], ["a"], []])
    rare = np.log(4 / 2) + 1
    common = np.log(4 / 3) + 1
    expected = np.array([common, rare]) / np.hypot(common, rare)
    np.testing.assert_allclose(found[0], expected)
    np.testing.assert_allclose(found[1], [1.0, 0.0])
    assert not found[2].any()
    np.testing.assert_allclose(cosines(found, found)[0, 1], expected[0])


def test_cosines_stay_within_1_whatever_the_rounding() -> None:
    found = cosines(np.array([[1.5, 0.0], [-1.5, 0.0]]), np.array([[1.0, 0.0]]))
    assert found.tolist() == [[1.0], [-1.0]]


def test_tfidf_equals_scikit_learn() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = ["knee pain pain", "hip pain in adults", "adults with a cold", ""]
    theirs = TfidfVectorizer(analyzer=str.split).fit_transform(texts).toarray()
    np.testing.assert_allclose(tfidf([text.split() for text in texts]), theirs)


def test_nothing_to_weigh() -> None:
    assert tfidf([]).shape == (0, 0)
    assert tfidf([[], []]).shape == (2, 0)


def test_the_numbers_of_ranges_by_hand() -> None:
    numbers, owner = flat_ranges(np.array([5, 2, 9, 0]), np.array([8, 2, 11, 1]))
    assert numbers.tolist() == [5, 6, 7, 9, 10, 0]
    assert owner.tolist() == [0, 0, 0, 2, 2, 3]
    assert [part.tolist() for part in flat_ranges(np.zeros(0, int), np.zeros(0, int))] == [[], []]


def test_means_of_groups_by_hand() -> None:
    found = group_means(np.array([1.0, -3.0, 4.0]), np.array([0, 2, 0]), 4)
    assert found.tolist() == [2.5, -np.inf, -3.0, -np.inf]


def test_the_best_of_each_group_count_and_missing_ones_as_0() -> None:
    values, group = np.array([1.0, 5.0, 3.0, 4.0, 2.0]), np.array([1, 0, 0, 1, 0])
    assert top_means(values, group, 2, 3).tolist() == [4.0, 2.5, 0.0]
    assert top_means(values, group, 3, 3).tolist() == [10 / 3, 5 / 3, 0.0]
