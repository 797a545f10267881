from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from scipy import sparse

from srrag.algo import merging
from srrag.algo.leiden import describe
from srrag.algo.merging import Communities, _Candidates, merge

# Four entities on a plane. Their relation types: {0}, {0, 1}, {1}, {2}.
VECTORS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-1.0, 0.0]])
RELATIONS = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]], dtype=bool)
PAIR = np.array([0, 0, 1, 2])  # communities {0, 1}, {2}, {3}


def communities(labels: np.ndarray, semantic_weight: float = 2.0) -> Communities:
    return Communities(labels, VECTORS, RELATIONS, semantic_weight)


def graph(pairs: list[tuple[int, int, float]], n: int) -> sparse.csr_array:
    dense = np.zeros((n, n))
    for a, b, weight in pairs:
        dense[a, b] = dense[b, a] = weight
    return sparse.csr_array(dense)


def test_affinity_to_the_own_community_leaves_the_entity_out() -> None:
    """Ψ of {0, 1} without 0 is {0, 1}: J = 1/2; without 1 it is {0}: J = 1/2. cos(0, 1) = 0.6."""
    assert communities(PAIR).own(0) == pytest.approx(0.5 + 2 * 0.6)
    assert communities(PAIR).own(1) == 0.0  # alone: nothing remains


def test_affinity_to_another_community() -> None:
    """Of 0 and 1 to {2}: J = 0 and 1/2, cos = 0 and 0.8; of 2 to {0, 1}: J = 1/2, cos 0.4."""
    found = communities(PAIR)
    assert found.other(0, np.array([1])) == pytest.approx([0.25 + 2 * 0.4])
    assert found.others(0, np.array([1])) == pytest.approx([0.5 + 2 * 0.4])
    assert found.other(1, np.array([0])) == pytest.approx([0.5 + 2 * 0.4])


def test_gap_is_the_mean_over_the_members_of_both() -> None:
    """(2 × (1.7 − 1.05) + 1 × (0 − 1.3)) / 3 = 0; for {3}: (2 × (1.7 + 1.6) + 1.6) / 3."""
    gaps = communities(PAIR).gaps(0, np.array([1, 2]))
    assert gaps == pytest.approx([0.0, (2 * (1.7 + 2 * 0.8) + 2 * 0.8) / 3])
    assert communities(PAIR).gaps(1, np.array([0])) == pytest.approx(gaps[:1])


def test_joining_equals_beginning_with_the_union() -> None:
    joined = communities(PAIR)
    joined.join(0, 1)
    whole = communities(np.array([0, 0, 0, 1]))
    assert joined.own(0) == pytest.approx(whole.own(0))
    assert joined.gaps(0, np.array([2])) == pytest.approx(whole.gaps(0, np.array([1])))


def test_sums_equal_the_means_over_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """E[φ] by its definition, member by member, on random communities, three at a time."""
    monkeypatch.setattr(merging, "_BLOCK", 3)
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(40, 5))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    sets = rng.random((40, 6)) < 0.4
    labels = np.concatenate([np.arange(7), rng.integers(0, 7, 33)])
    found = Communities(labels, vectors, sets, 0.7)

    def phi(i: int, members: np.ndarray) -> float:
        members = members[members != i]
        if not len(members):
            return 0.0
        types = sets[members].any(axis=0)
        union = (sets[i] | types).sum()
        jaccard = (sets[i] & types).sum() / union if union else 0.0
        return float(jaccard + 0.7 * (vectors[members] @ vectors[i]).mean())

    groups = [np.flatnonzero(labels == a) for a in range(7)]
    for a in range(7):
        assert found.own(a) == pytest.approx(np.mean([phi(i, groups[a]) for i in groups[a]]))
        others = np.array([b for b in range(7) if b != a])
        expected = [np.mean([phi(i, groups[b]) for i in groups[a]]) for b in others]
        assert found.other(a, others) == pytest.approx(expected)
        back = [np.mean([phi(i, groups[a]) for i in groups[b]]) for b in others]
        assert found.others(a, others) == pytest.approx(back)


def test_only_linked_communities_merge() -> None:
    apart = graph([(0, 1, 1.0)], 4)
    found = merge(PAIR, apart, VECTORS, RELATIONS, semantic_weight=2.0)
    assert found.labels.tolist() == [0, 0, 1, 2]


def test_the_description_of_a_join_is_that_of_the_joined_partition() -> None:
    rng = np.random.default_rng(5)
    dense = np.triu(rng.random((12, 12)) * (rng.random((12, 12)) < 0.5), 1)
    links = sparse.csr_array(dense + dense.T)
    labels = np.arange(12) // 3
    vectors = rng.normal(size=(12, 4))
    found = Communities(labels, vectors, np.ones((12, 1), bool), 1.0)
    candidates = _Candidates(found, links, labels)
    description = describe(links, labels)
    for a, b in ((0, 2), (1, 3), (0, 1)):
        description = candidates.describe_join(a, b, description)
        candidates.join(a, b)
        labels = np.where(labels == b, a, labels)
        assert asdict(description) == pytest.approx(asdict(describe(links, labels)))


def test_the_shortest_description_decides() -> None:
    """Two cliques of eight, each cut in halves, become two communities again, never one."""
    n = 16
    links = graph(
        [(a, b, 1.0) for a in range(n) for b in range(a) if a // 8 == b // 8] + [(7, 8, 1.0)], n
    )
    vectors = np.repeat([[1.0, 0.0], [0.0, 1.0]], 8, axis=0)
    sets = np.ones((n, 1), dtype=bool)
    found = merge(np.arange(n) // 4, links, vectors, sets, semantic_weight=2.0)
    assert found.labels.tolist() == [0] * 8 + [1] * 8
    assert found.num_merges == 2


def test_a_pair_that_lengthens_the_description_ends_nothing() -> None:
    """One link joins the two that are most alike; the halves of a third merge all the same."""
    n = 40
    blocks = np.repeat([0, 1, 2, 2], 10)
    links = graph(
        [(a, b, 1.0) for a in range(n) for b in range(a) if blocks[a] == blocks[b]]
        + [(9, 10, 1.0)],
        n,
    )
    vectors = np.repeat([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 10, axis=0)
    sets = np.ones((n, 1), dtype=bool)
    found = merge(np.arange(n) // 10, links, vectors, sets, semantic_weight=2.0)
    assert found.labels.tolist() == blocks.tolist()
