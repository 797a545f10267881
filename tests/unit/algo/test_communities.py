from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from srrag.algo.communities import EvidenceGraph, detect, update


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


def test_a_cap_merges_and_keeps_everyone() -> None:
    graph, topics = planted(10, 20)
    found = detect(graph, max_communities=4)
    assert len(found.labels) == len(topics)
    assert np.unique(found.labels).tolist() == [0, 1, 2, 3]


def test_the_order_of_the_relations_does_not_matter() -> None:
    graph, _ = planted(8, 20)
    order = np.random.default_rng(9).permutation(len(graph.heads))
    shuffled = replace(
        graph, heads=graph.tails[order], tails=graph.heads[order], relations=graph.relations[order]
    )
    one, two = detect(graph), detect(shuffled)
    assert one.labels.tolist() == two.labels.tolist()
    assert (one.epsilon, one.modularity) == (two.epsilon, two.modularity)


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


def test_untouched_communities_stay() -> None:
    """Five entities of one topic lose their relations; only what is around them runs again."""
    graph, topics = planted(40, 25)
    before = detect(graph)
    gone = np.isin(graph.heads, np.arange(5)) | np.isin(graph.tails, np.arange(5))
    touched = np.zeros(len(topics), dtype=bool)
    touched[graph.heads[gone]] = touched[graph.tails[gone]] = True
    after = replace(
        graph, heads=graph.heads[~gone], tails=graph.tails[~gone], relations=graph.relations[~gone]
    )
    labels = update(after, before.labels, touched, density=before.density, epsilon=before.epsilon)

    def groups(found: np.ndarray) -> set[frozenset[int]]:
        return {frozenset(np.flatnonzero(found == c).tolist()) for c in np.unique(found)}

    kept = groups(before.labels) & groups(labels)
    assert len(kept) >= 20
    assert purity(labels, topics) > 0.9


def test_a_new_entity_joins_and_the_rest_stays() -> None:
    graph, topics = planted(12, 25)
    before = detect(graph)
    grown = EvidenceGraph(
        np.vstack([graph.vectors, graph.vectors[:1]]),
        np.append(graph.types, graph.types[0]),
        np.append(graph.heads, [300, 300]),
        np.append(graph.tails, [0, 1]),
        np.append(graph.relations, [0, 1]),
    )
    labels = update(
        grown,
        np.append(before.labels, -1),
        np.zeros(301, dtype=bool),
        density=before.density,
        epsilon=before.epsilon,
    )
    assert np.bincount(labels[:25]).argmax() == labels[300]
    assert purity(labels, np.append(topics, 0)) > 0.9


def test_without_touched_nothing_changes() -> None:
    graph, _ = planted(6, 20)
    before = detect(graph)
    labels = update(
        graph, before.labels, np.zeros(120, dtype=bool), density=before.density, epsilon=0.1
    )
    assert labels.tolist() == before.labels.tolist()
