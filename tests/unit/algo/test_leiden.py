from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from srrag.algo import leiden as module
from srrag.algo.leiden import (
    describe,
    description_length,
    gathered,
    leiden,
    modularity,
    renumber,
    start,
)


def triangles() -> sparse.csr_array:
    """Two triangles, joined by one edge."""
    dense = np.zeros((6, 6))
    for a, b in [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)]:
        dense[a, b] = dense[b, a] = 1.0
    return sparse.csr_array(dense)


HALVES = np.array([0, 0, 0, 1, 1, 1])


def test_modularity_by_hand() -> None:
    """6/7 of the edges inside, both halves with half the degrees: 6/7 − 1/2."""
    assert modularity(triangles(), HALVES) == pytest.approx(6 / 7 - 1 / 2)
    assert modularity(triangles(), np.zeros(6, dtype=int)) == pytest.approx(0.0)
    assert modularity(sparse.csr_array((3, 3)), np.arange(3)) == 0.0


def test_description_length_by_hand() -> None:
    """6 of 7 inside where 3.5 are expected; ln 6 + ln C(5, 1) + ln C(6, 3)."""
    found = describe(triangles(), HALVES)
    assert (found.total, found.within, found.expected) == pytest.approx((7.0, 6.0, 3.5))
    graph = -6 * math.log(6 / 3.5) - 1 * math.log(1 / 3.5)
    partition = math.log(6) + math.log(5) + math.log(20)
    assert description_length(triangles(), HALVES) == pytest.approx(graph + partition)


def test_description_of_light_links_that_all_lie_inside() -> None:
    """.6 of .6 inside where .3 are expected, and nothing outside."""
    apart = triangles().toarray()
    apart[2, 3] = apart[3, 2] = 0.0
    partition = math.log(6) + math.log(5) + math.log(20)
    found = description_length(sparse.csr_array(0.1 * apart), HALVES)
    assert found == pytest.approx(partition - 0.6 * math.log(2))


def test_one_community_says_nothing_of_the_graph() -> None:
    assert description_length(triangles(), np.zeros(6, dtype=int)) == pytest.approx(math.log(6))


def test_leiden_finds_the_triangles_and_leaves_the_lonely_alone() -> None:
    wider = sparse.csr_array(sparse.block_diag([triangles(), sparse.csr_array((1, 1))]))
    assert leiden(wider, 1.0).tolist() == [0, 0, 0, 1, 1, 1, 2]


def test_numbers_follow_first_members() -> None:
    assert renumber(np.array([5, 3, 5, -1, 3])).tolist() == [0, 1, 0, 2, 1]


@pytest.mark.parametrize(("num_cliques", "size"), [(4, 12), (40, 12), (10, 48)])
def test_the_resolution_follows_the_graph(num_cliques: int, size: int) -> None:
    """A ring of cliques is cut into its cliques, however many and however large they are."""
    n = num_cliques * size
    labels = np.arange(n) // size
    dense = (labels[:, None] == labels).astype(float) - np.eye(n)
    for clique in range(num_cliques):
        a, b = clique * size, ((clique + 1) * size + 1) % n
        dense[a, b] = dense[b, a] = 1.0
    graph = sparse.csr_array(dense)
    found = start(graph)
    assert found.labels.tolist() == labels.tolist()
    assert math.log2(found.resolution).is_integer()
    assert leiden(graph, found.resolution).tolist() == labels.tolist()
    lengths = [description_length(graph, found) for found in (labels, labels // 2)]
    assert lengths[0] < lengths[1]


@pytest.mark.parametrize(
    ("best", "whole", "small"),
    [(1, [3, 1], [1, 0, 2]), (-1, [3, -1], [1, 0, 2, -1, -2]), (5, [3, 4, 5, 6], [1, 0, 2])],
)
def test_coarser_resolutions_are_tried_on_communities_and_finer_ones_on_the_whole(
    monkeypatch: pytest.MonkeyPatch, best: int, whole: list[int], small: list[int]
) -> None:
    """A description that is shortest at 2 to the `best`; the search of 100 nodes starts at 2¹."""
    tried: dict[bool, list[int]] = {True: [], False: []}

    def cut(graph: sparse.csr_array, resolution: float, seed: int) -> np.ndarray:
        power = int(math.log2(resolution))
        tried[graph.shape[0] == 100].append(power)
        return np.full(graph.shape[0], power + 2)

    def described(graph: sparse.csr_array, labels: np.ndarray, *sizes: np.ndarray) -> Any:
        return SimpleNamespace(nats=lambda: abs(labels[0] - 2 - best))

    monkeypatch.setattr(module, "leiden", cut)
    monkeypatch.setattr(module, "describe", described)
    assert start(sparse.csr_array((100, 100))).resolution == 2.0**best
    assert tried == {True: whole, False: small}


def test_a_gathered_graph_describes_coarser_partitions_as_the_whole_does() -> None:
    rng = np.random.default_rng(7)
    dense = np.triu(rng.random((60, 60)) * (rng.random((60, 60)) < 0.2), 1)
    graph = sparse.csr_array(dense + dense.T)
    finer = renumber(rng.integers(0, 12, 60))
    small, sizes = gathered(graph, finer)
    coarser = rng.integers(0, 4, 12)
    both = np.concatenate([coarser, coarser])
    assert modularity(small, both) == pytest.approx(modularity(graph, coarser[finer]))
    assert describe(small, both, sizes).nats() == pytest.approx(
        description_length(graph, coarser[finer])
    )
    assert small.toarray() == pytest.approx(small.toarray().T)


def test_leiden_keeps_each_leaf_with_its_community() -> None:
    """The two triangles gathered: at resolution 1 they stay apart, at .1 they are one."""
    small, sizes = gathered(triangles(), HALVES)
    assert sizes.tolist() == [3, 3, 0, 0]
    assert small.toarray()[0].tolist() == [0.0, 1.0, 3.0, 0.0]
    assert leiden(small, 1.0).tolist() == [0, 1, 0, 1]
    assert leiden(small, 0.1).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("n", [0, 1, 2])
def test_graphs_without_edges(n: int) -> None:
    found = start(sparse.csr_array((n, n)))
    assert found.labels.tolist() == list(range(n))


def test_the_start_says_which_resolution_made_it() -> None:
    rng = np.random.default_rng(5)
    dense = np.kron(np.eye(60), np.ones((3, 3))) + (rng.random((180, 180)) < 0.005)
    graph = sparse.csr_array(np.triu(dense, 1) + np.triu(dense, 1).T)
    found = start(graph)
    again = renumber(leiden(graph, found.resolution))
    assert again.tolist() == renumber(found.labels).tolist()
    assert found.resolution == 0.5
