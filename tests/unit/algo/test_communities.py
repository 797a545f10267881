from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from srrag.algo.affinity import Basis
from srrag.algo.communities import (
    DetectionState,
    EvidenceGraph,
    Neighbourhood,
    detect,
    move,
    neighbourhood,
    settle,
    update,
)


def planted(num_topics: int, size: int, seed: int = 0) -> tuple[EvidenceGraph, np.ndarray]:
    """Topics with a direction of their own, two relations an entity, nine of ten inside."""
    rng = np.random.default_rng(seed)
    n = num_topics * size
    topics = np.arange(n) // size
    vectors = rng.normal(size=(num_topics, 32))[topics] + 1.5 * rng.normal(size=(n, 32))
    heads = np.repeat(np.arange(n), 2)
    inside = topics[heads] * size + rng.integers(0, size, 2 * n)
    tails = np.where(rng.random(2 * n) < 0.9, inside, rng.integers(0, n, 2 * n))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    graph = EvidenceGraph(
        vectors.astype(np.float32), topics % 3, heads, tails, rng.integers(0, 5, 2 * n)
    )
    return graph, topics


def purity(labels: np.ndarray, topics: np.ndarray) -> float:
    """Share of pairs on which two partitions agree, of those that either joins (Jaccard)."""
    same, true = labels[:, None] == labels, topics[:, None] == topics
    return float((same & true).sum() / (same | true).sum())


@pytest.mark.parametrize(("num_topics", "size"), [(5, 30), (25, 30), (5, 150)])
def test_topics_are_found_at_any_number_and_size(num_topics: int, size: int) -> None:
    graph, topics = planted(num_topics, size)
    found = detect(graph)
    assert purity(found.labels, topics) > 0.9
    assert found.num_merges == found.initial.max() - found.labels.max()


def test_the_order_of_the_relations_does_not_matter() -> None:
    graph, _ = planted(8, 20)
    order = np.random.default_rng(9).permutation(len(graph.heads))
    shuffled = replace(
        graph, heads=graph.tails[order], tails=graph.heads[order], relations=graph.relations[order]
    )
    one, two = detect(graph), detect(shuffled)
    assert one.labels.tolist() == two.labels.tolist()
    assert one.modularity == two.modularity


def tiny(names: list[list[float]], edges: list[tuple[int, int]]) -> EvidenceGraph:
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    vectors = np.array(names, dtype=np.float32).reshape(-1, 2)
    kinds = np.zeros(len(vectors), dtype=np.int64)
    return EvidenceGraph(vectors, kinds, ends[:, 0], ends[:, 1], np.zeros(len(ends), np.int64))


@pytest.mark.parametrize(
    ("names", "edges", "expected"),
    [
        ([], [], []),
        ([[1, 0]], [], [0]),
        ([[1, 0]], [(0, 0)], [0]),
        ([[1, 0], [-1, 0]], [], [0, 1]),
        ([[1, 0], [-1, 0]], [(0, 1), (0, 1), (1, 0), (1, 1)], [0, 0]),
        ([[1, 0], [0, 1]], [(0, 1)], [0, 0]),
    ],
)
def test_tiny_graphs(
    names: list[list[float]], edges: list[tuple[int, int]], expected: list[int]
) -> None:
    assert detect(tiny(names, edges)).labels.tolist() == expected


def groups(labels: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(labels == c).tolist()) for c in np.unique(labels)}


def marked(count: int, *rows: int) -> np.ndarray:
    touched = np.zeros(count, dtype=bool)
    touched[list(rows)] = True
    return touched


def grown(standing: DetectionState, count: int) -> DetectionState:
    """The standing with so many new entities at the end."""
    n, k = standing.near.shape
    own = np.repeat(np.arange(n, n + count)[:, None], k, axis=1)
    return replace(
        standing,
        labels=np.append(standing.labels, np.full(count, -1)),
        places=np.vstack([standing.places, np.zeros((count, standing.places.shape[1]), "f4")]),
        near=np.vstack([standing.near, own]),
        name_degrees=np.append(standing.name_degrees, np.zeros(count)),
    )


def test_only_touched_entities_move() -> None:
    """Five entities of one topic lose their relations: all others stay with whom they were."""
    graph, topics = planted(40, 25)
    before = detect(graph).standing
    gone = np.isin(graph.heads, np.arange(5)) | np.isin(graph.tails, np.arange(5))
    touched = marked(len(topics), *graph.heads[gone], *graph.tails[gone])
    after = replace(
        graph, heads=graph.heads[~gone], tails=graph.tails[~gone], relations=graph.relations[~gone]
    )
    labels = update(after, before, touched).labels
    still = np.flatnonzero(~touched)
    assert groups(before.labels[still]) == groups(labels[still])
    assert len(groups(before.labels) & groups(labels)) >= 20
    assert purity(labels, topics) > 0.9


def test_new_entities_of_a_topic_join_it() -> None:
    graph, topics = planted(12, 25)
    before = detect(graph).standing
    names = graph.vectors[[0, 30, 60]]
    more = EvidenceGraph(
        np.vstack([graph.vectors, names]),
        np.append(graph.types, graph.types[[0, 30, 60]]),
        np.append(graph.heads, [300, 300, 301, 301, 302]),
        np.append(graph.tails, [0, 1, 30, 31, 60]),
        np.append(graph.relations, [0, 1, 0, 1, 0]),
    )
    found = update(more, grown(before, 3), marked(303, 0, 1, 30, 31, 60))
    for new, old in ((300, 0), (301, 25), (302, 50)):
        assert np.bincount(found.labels[old : old + 25]).argmax() == found.labels[new]
    assert purity(found.labels, np.append(topics, [0, 1, 2])) > 0.9
    whole = detect(more).standing.places
    near, far = (places[:300] @ places[300:].T for places in (found.places, whole))
    assert np.corrcoef(near.ravel(), far.ravel())[0, 1] > 0.9


def test_a_new_topic_becomes_a_community_of_its_own() -> None:
    graph, topics = planted(12, 25)
    old = np.flatnonzero((graph.heads < 275) & (graph.tails < 275))
    part = EvidenceGraph(
        graph.vectors[:275], graph.types[:275], graph.heads[old], graph.tails[old],
        graph.relations[old],
    )  # fmt: skip
    before = detect(part).standing
    ends = np.delete(np.arange(len(graph.heads)), old)
    touched = marked(300, *graph.heads[ends], *graph.tails[ends])
    labels = update(graph, grown(before, 25), touched).labels
    assert purity(labels, topics) > 0.9
    assert len(groups(labels)) > len(groups(before.labels))


def test_without_touched_nothing_changes() -> None:
    graph, _ = planted(6, 20)
    before = detect(graph).standing
    found = update(graph, before, np.zeros(120, dtype=bool))
    assert found.labels.tolist() == before.labels.tolist()
    assert found.name_degrees == pytest.approx(before.name_degrees)


def islands() -> EvidenceGraph:
    """Six topics of 20, apart by name; 0 is linked to 1 and 2, and 4 to 5."""
    rng = np.random.default_rng(7)
    topics = np.arange(120) // 20
    vectors = np.eye(6, 32)[topics] + 0.05 * rng.normal(size=(120, 32))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    heads = np.repeat(np.arange(120), 3)
    tails = topics[heads] * 20 + rng.integers(0, 20, 360)
    more = np.array([(0, 20), (1, 21), (2, 40), (3, 41), (80, 100), (81, 101)])
    heads, tails = np.append(heads, more[:, 0]), np.append(tails, more[:, 1])
    return EvidenceGraph(
        vectors.astype(np.float32), np.zeros(120, int), heads, tails, np.zeros(366, int)
    )


def test_who_is_not_touched_stays_where_it_does_not_belong() -> None:
    graph = islands()
    labels = np.arange(120) // 20
    labels[[119, 0]] = 0, 5
    before = replace(detect(graph).standing, labels=labels)
    found = update(graph, before, np.zeros(120, dtype=bool))
    assert groups(found.labels) == groups(labels)


def test_an_entity_has_the_relation_types_of_both_its_ends() -> None:
    none = np.zeros((3, 2), np.float32)
    edges = (np.array(ends) for ends in ([0, 1], [1, 2], [0, 2]))
    graph = EvidenceGraph(none, np.zeros(3, int), *edges)
    assert graph.relation_sets().tolist() == [
        [True, False, False], [True, False, True], [False, False, True],
    ]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_everyone_is_in_one_community_whatever_changes(data: st.DataObject) -> None:
    graph, _ = planted(4, 6, seed=data.draw(st.integers(0, 3)))
    before = detect(graph).standing
    new = data.draw(st.sets(st.integers(0, 23), max_size=8))
    touched = data.draw(st.sets(st.integers(0, 23)))
    labels = np.where(np.isin(np.arange(24), list(new)), -1, before.labels)
    changed = marked(24, *touched)
    one, two = (update(graph, replace(before, labels=labels), changed) for _ in range(2))
    assert one.labels.tolist() == two.labels.tolist(), "the same every time"
    assert sorted(set(one.labels.tolist())) == [*range(len(set(one.labels.tolist())))]
    still = np.array(sorted({*range(24)} - new - touched), dtype=int)
    assert groups(before.labels[still]) == groups(one.labels[still])


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
