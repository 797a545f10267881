from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from srrag.algo.affinity import Basis
from srrag.algo.local_moving import DetectionState, Neighbourhood, move, neighbourhood, settle


def around(weights: list[list[float]], rows: list[int]) -> Neighbourhood:
    """All affinities of a small graph, of which some rows may move."""
    whole = np.array(weights)
    return Neighbourhood(np.array(rows), sparse.csr_array(whole[rows]), whole.sum(axis=1))


TWO_PAIRS = [
    [0, 1, 0, 0, 0],
    [1, 0, 0, 0, 0],
    [0, 0, 0, 1, 2],
    [0, 0, 1, 0, 0],
    [0, 0, 2, 0, 0],
]


def test_a_new_entity_joins_where_modularity_gains_most() -> None:
    labels = move(around(TWO_PAIRS, [4]), np.array([0, 0, 1, 1, -1]), density=0.1)
    assert labels.tolist() == [0, 0, 1, 1, 1]


def test_it_stays_alone_where_joining_costs_more_than_its_weight() -> None:
    """Weight 2 against .6 × degree 2 × the pair's 4: alone is better."""
    labels = move(around(TWO_PAIRS, [4]), np.array([0, 0, 1, 1, -1]), density=0.6)
    assert labels.tolist() == [0, 0, 1, 1, 2]


def test_an_entity_whose_relations_went_leaves() -> None:
    """Row 1 has a relation to the other pair now, and none to its own."""
    weights = [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]]
    labels = move(around(weights, [1]), np.array([0, 0, 1, 1]), density=0.01)
    assert labels.tolist() == [0, 1, 1, 1]


def test_an_entity_that_is_repelled_by_all_is_alone() -> None:
    weights = [[0, 5, 0], [5, 0, 0.1], [0, 0.1, 0]]
    labels = move(around(weights, [2]), np.array([0, 0, 0]), density=1.0)
    assert labels.tolist() == [0, 0, 1]


def test_those_that_may_not_move_stay_even_if_they_gained() -> None:
    labels = move(around(TWO_PAIRS, [0]), np.array([0, 1, 1, 0, 0]), density=0.01)
    assert labels[1:].tolist() == [1, 1, 0, 0]
    assert labels[0] == 1


def test_who_is_new_and_linked_to_nobody_is_alone() -> None:
    nobody = around([[0, 1, 0], [1, 0, 0], [0, 0, 0]], [2])
    assert move(nobody, np.array([0, 0, -1]), density=0.1).tolist() == [0, 0, 1]
    none = around([[0, 0], [0, 0]], [0, 1])
    assert move(none, np.array([-1, -1]), density=0.1).tolist() == [0, 1]


def test_who_has_moved_is_followed() -> None:
    """0 joins 1, which joins 2, to which 0 then goes after it."""
    chain = around([[0, 1, 0], [1, 0, 3], [0, 3, 0]], [0, 1])
    assert move(chain, np.array([0, 1, 2]), density=0.01).tolist() == [2, 2, 2]


def test_of_two_that_gain_alike_it_joins_the_first() -> None:
    alike = around([[0, 0, 1], [0, 0, 1], [1, 1, 0]], [2])
    assert move(alike, np.array([1, 0, -1]), density=0.1).tolist() == [1, 0, 0]


def standing(labels: list[int]) -> DetectionState:
    places = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32)[: len(labels)]
    near = np.array([[1], [0], [3], [2]])[: len(labels)]
    basis = Basis(np.zeros((1, 2), np.float32), np.eye(2, dtype=np.float32))
    return DetectionState(np.array(labels), places, near, np.full(len(labels), 0.5), basis, 0.1)


def test_what_is_new_finds_who_is_near_and_all_others_keep_theirs() -> None:
    before = standing([0, 0, 1, -1])
    found = settle(before)
    assert found.near[3].tolist() == [2]
    assert found.near[:3].tolist() == before.near[:3].tolist()


def test_the_neighbourhood_of_one_has_its_weights_both_ways_round() -> None:
    """Relation 1; names ½ × cosine 1 × both share both: {2, 3} of {2, 3}."""
    links = np.zeros((4, 4))
    links[0, 3] = links[3, 0] = 1
    found, degrees = neighbourhood(standing([0, 0, 1, -1]), np.array([3]), sparse.csr_array(links))
    assert found.rows.tolist() == [3]
    assert found.weights.toarray()[0] == pytest.approx([1, 0, 0.5, 0])
    assert degrees == pytest.approx([0.5, 0.5, 1.0, 0.5]), "entity 2 has gained a neighbour"
    assert found.degrees == pytest.approx([1.5, 0.5, 1.0, 1.5])
