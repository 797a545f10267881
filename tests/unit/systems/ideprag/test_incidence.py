from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from srrag.systems.ideprag.hypergraph import (
    expected_visits,
    topic_weights,
    topics_of,
    transition,
)

# Four pieces of evidence over three entities; labels 0 and 1.
EVIDENCE = np.array([0, 0, 1, 1, 2, 3, 3])
ENTITY = np.array([0, 1, 0, 2, 0, 1, 2])
LABEL = np.array([0, 0, 1, 1])


def graph(least: int = 1) -> tuple[sparse.csr_array, sparse.csr_array, sparse.csr_array]:
    topics = topics_of(EVIDENCE, ENTITY, LABEL, least)
    weights = topic_weights(topics, EVIDENCE, ENTITY, (4, 3))
    return weights, transition(sparse.csr_array(weights.T.tocsr())), transition(weights)


def test_topics_group_the_evidence_of_an_entity_by_label() -> None:
    topics = topics_of(EVIDENCE, ENTITY, LABEL)
    found = {
        (e, lab): topics.members[a:b].tolist()
        for e, lab, a, b in zip(
            topics.entity, topics.label, topics.offsets[:-1], topics.offsets[1:], strict=True
        )
    }
    assert found == {
        (0, 0): [0, 1],
        (0, 1): [2],
        (1, 0): [0],
        (1, 1): [3],
        (2, 0): [1],
        (2, 1): [3],
    }
    assert len(topics_of(EVIDENCE, ENTITY, LABEL, 2)) == 1


def test_a_weight_is_the_share_of_the_evidence_that_names_the_entity() -> None:
    weights, _, _ = graph()
    topics = topics_of(EVIDENCE, ENTITY, LABEL)
    names = [set(ENTITY[np.equal(EVIDENCE, e)].tolist()) for e in range(4)]
    for t in range(len(topics)):
        members = topics.members[topics.offsets[t] : topics.offsets[t + 1]]
        for m in range(3):
            share = np.mean([m in names[e] for e in members])
            assert weights[t, m] == pytest.approx(share)


def test_the_expected_visits_are_those_of_dense_matrices() -> None:
    weights, to_topic, to_entity = graph()
    seeds = np.array([2.0, 0.0, 1.0], np.float32)
    there, back = to_topic.toarray(), to_entity.toarray()
    place, wanted = seeds / 3, np.zeros(weights.shape[0])
    for _ in range(2):
        wanted += place @ there
        place = place @ there @ back
    found = expected_visits(to_topic, to_entity, seeds, 3)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert found.sum() == pytest.approx(2.0)
    assert not expected_visits(to_topic, to_entity, np.zeros(3, np.float32), 3).any()


def test_a_walk_that_cannot_go_on_visits_nothing_more() -> None:
    to_topic = sparse.csr_array(np.array([[0.0, 1.0], [0.0, 0.0]], np.float32))
    nowhere = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 0.0]], np.float32))
    for steps in (1, 3):
        found = expected_visits(to_topic, nowhere, np.array([1.0, 0.0], np.float32), steps)
        assert found.tolist() == [0.0, 1.0]


def test_a_product_over_some_rows_is_that_over_all() -> None:
    """Sparse places take another way than dense ones."""
    draw = np.random.default_rng(1)
    matrix = sparse.random_array((60, 80), density=0.2, rng=draw, dtype=np.float32).tocsr()
    to_topic = transition(sparse.csr_array(matrix))
    to_entity = transition(sparse.csr_array(matrix.T.tocsr()))
    for seeds in (np.eye(60, dtype=np.float32)[3], np.ones(60, np.float32)):
        place = seeds / seeds.sum() @ to_topic.toarray()
        np.testing.assert_allclose(expected_visits(to_topic, to_entity, seeds, 1), place, atol=1e-6)
