import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.algo.rrf import blend, min_max, rank_scores, reciprocal_rank_fusion


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


def test_blend_by_hand_and_its_limits():
    assert blend(np.array([1.0]), np.array([0.0]), 0.25).tolist() == [0.75]
    with pytest.raises(ValueError, match=r"1\.5"):
        blend(np.zeros(1), np.zeros(1), 1.5)


def test_a_score_alone_is_the_best_of_its_query() -> None:
    assert min_max(np.array([5.0]), np.zeros(1, dtype=np.int64)).tolist() == [1.0]
