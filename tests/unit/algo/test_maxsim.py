import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srrag.algo.maxsim import maxsim, take_ragged


def test_sum_of_best_cosines_by_hand():
    query = np.array([[1.0, 0.0], [0.6, 0.8]], dtype=np.float32)
    values = np.array([[1, 0], [0, 1], [-1, 0]], dtype=np.float32)
    # document 0 owns (1,0), (0,1): best are 1 and .8; document 1 owns (-1,0): -1 and -.6
    scores = maxsim(query, values, np.array([0, 2, 3]))
    assert scores == pytest.approx([1.8, -1.6])


def test_scale_turns_int8_into_unit_vectors():
    query = np.array([[0.6, 0.8]], dtype=np.float32)
    values = np.array([[96, -72], [0, 127]], dtype=np.int8)
    scale = np.array([1 / 120, 1 / 127], dtype=np.float32)
    scores = maxsim(query, values, np.array([0, 1, 2]), scale)
    assert scores == pytest.approx([0.6 * 0.8 - 0.8 * 0.6, 0.8], abs=1e-6)


def test_empty_documents_score_zero_wherever_they_stand():
    query = np.array([[1.0, 0.0]], dtype=np.float32)
    values = np.array([[-1, 0], [1, 0]], dtype=np.float32)
    scores = maxsim(query, values, np.array([0, 0, 1, 1, 2, 2]))
    assert scores.tolist() == [0.0, -1.0, 0.0, 1.0, 0.0]


def test_nothing_to_score():
    width = 3
    none = np.zeros((0, width), dtype=np.int8)
    assert maxsim(np.zeros((2, width)), none, np.array([0])).shape == (0,)
    assert maxsim(np.zeros((2, width)), none, np.array([0, 0])).tolist() == [0.0]
    some = np.ones((1, width), dtype=np.int8)
    assert maxsim(np.zeros((0, width)), some, np.array([0, 1])).tolist() == [0.0]


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(1, 4), st.integers(0, 2**31))
def test_agrees_with_a_loop(lengths, num_query, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    query = rng.normal(size=(num_query, 4)).astype(np.float32)
    values = rng.integers(-127, 128, size=(offsets[-1], 4)).astype(np.int8)
    scale = rng.uniform(0.001, 0.01, size=len(values)).astype(np.float16)
    expected = []
    for start, stop in pairwise(offsets):
        tokens = [values[t].astype(np.float32) * np.float32(scale[t]) for t in range(start, stop)]
        expected.append(sum(max(float(q @ t) for t in tokens) for q in query) if tokens else 0.0)
    assert maxsim(query, values, offsets, scale) == pytest.approx(expected, abs=1e-4)


def test_many_tokens_agree_with_one_product():
    rng = np.random.default_rng(1)
    offsets = np.array([0, 1500, 1500, 2049, 3000])
    values = rng.integers(-127, 128, size=(3000, 8)).astype(np.int8)
    query = rng.normal(size=(3, 8)).astype(np.float32)
    similarity = values.astype(np.float64) @ query.T.astype(np.float64)
    expected = [similarity[a:b].max(axis=0).sum() if b > a else 0.0 for a, b in pairwise(offsets)]
    assert maxsim(query, values, offsets) == pytest.approx(expected, rel=1e-5)


def test_products_of_int8_are_exact_with_torch_and_without(monkeypatch):
    pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    query = rng.choice(np.array([-127, 3, 127], np.int8), (5, 384))
    values = rng.choice(np.array([-127, -1, 127], np.int8), (70, 384))
    values[0] = query[0]
    scale, terms = rng.uniform(0.001, 0.01, 70).astype(np.float16), rng.random(5, np.float32)
    offsets = np.array([0, 1, 1, 40, 70])
    found = maxsim(query, values, offsets, scale, terms)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert maxsim(query, values, offsets, scale, terms).tolist() == found.tolist()
    wide = query.astype(np.float64) @ values.T.astype(np.float64) * scale.astype(np.float32)
    expected = [wide[:, a:b].max(axis=1) @ terms if b > a else 0.0 for a, b in pairwise(offsets)]
    assert found == pytest.approx(expected, rel=1e-6)


def test_chosen_documents_score_as_among_all():
    rng = np.random.default_rng(0)
    offsets = np.array([0, 3, 3, 5, 9])
    values, query = rng.normal(size=(9, 4)), rng.normal(size=(2, 4))
    rows = np.array([3, 1, 0])
    tokens, chosen = take_ragged(offsets, rows)
    assert chosen.tolist() == [0, 4, 4, 7]
    assert tokens.tolist() == [5, 6, 7, 8, 0, 1, 2]
    assert maxsim(query, values[tokens], chosen) == pytest.approx(
        maxsim(query, values, offsets)[rows]
    )


def test_taking_no_documents():
    tokens, chosen = take_ragged(np.array([0, 2]), np.zeros(0, dtype=np.int64))
    assert (tokens.tolist(), chosen.tolist()) == ([], [0])


@pytest.mark.parametrize(
    ("query", "offsets", "scale"),
    [
        (np.zeros((1, 3)), [0, 2], None),
        (np.zeros((1, 2)), [0, 1], None),
        (np.zeros((1, 2)), [1, 2], None),
        (np.zeros((1, 2)), [0, 2, 1, 2], None),
        (np.zeros((1, 2)), [0, 2], np.ones(3)),
    ],
)
def test_shapes_that_disagree(query, offsets, scale):
    with pytest.raises(ValueError):
        maxsim(query, np.zeros((2, 2)), np.array(offsets), scale)


@pytest.mark.parametrize(
    ("query", "values", "offsets", "scale", "says"),
    [
        (np.zeros(2), np.zeros((2, 2)), [0, 2], None, "do not share a width"),
        (np.zeros((1, 2)), np.zeros(2), [0, 2], None, "do not share a width"),
        (np.zeros((0, 2, 2)), np.zeros((2, 2)), [0, 2], None, "do not share a width"),
        (np.zeros((1, 3)), np.zeros((2, 2)), [0, 2], None, "do not share a width"),
        (np.zeros((1, 2)), np.zeros((2, 2)), [], None, "offsets do not run from 0 to the 2 rows"),
        (np.zeros((1, 2)), np.zeros((2, 2)), [1, 2], None, "offsets do not run from 0"),
        (np.zeros((1, 2)), np.zeros((2, 2)), [0, 1], None, "offsets do not run from 0"),
        (np.zeros((1, 2)), np.zeros((2, 2)), [0, 2, 1, 2], None, "offsets decrease"),
        (np.zeros((1, 2)), np.zeros((2, 2)), [0, 2], np.ones((2, 1)), "scale"),
        (np.zeros((1, 2)), np.zeros((2, 2)), [0, 2], np.ones(1), "one number for each of 2 rows"),
    ],
)
def test_what_disagrees_is_named(query, values, offsets, scale, says):
    with pytest.raises(ValueError, match=says):
        maxsim(query, values, np.array(offsets), scale)


def test_no_token_of_a_query_needs_no_width():
    assert maxsim(np.zeros((0, 0)), np.ones((1, 2)), np.array([0, 1])).tolist() == [0.0]
    none = np.zeros((0, 0))
    assert maxsim(np.zeros((0, 3)), none, np.array([0])).shape == (0,)
