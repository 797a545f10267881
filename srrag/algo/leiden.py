"""Leiden's partition of a graph, at the resolution with the shortest description length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import graspologic_native
import numpy as np
from scipy import sparse

_STEP = 2.0
_FINER = 2
"""Steps from the resolution where the search starts to the finer partition that it compares on."""


@dataclass(frozen=True, slots=True)
class Start:
    """A partition by Leiden: the community of each node, int64 (n,), numbered by first member."""

    labels: np.ndarray
    resolution: float


def start(graph: sparse.csr_array, seed: int = 0) -> Start:
    """Find Leiden's partition at the resolution with the shortest description.

    Resolutions are powers of 2. The search starts in the middle and follows shorter descriptions
    until both neighbours are longer. It compares partitions of a finer partition's communities,
    which cost a tenth of the whole graph; the best resolution is then run on the whole.
    """
    # The start affects only the number of steps; a graph has about √n communities.
    best = round(math.log(graph.shape[0] ** 0.5 / 8 + 1, _STEP))
    finest = best + _FINER
    whole = {finest: leiden(graph, _STEP**finest, seed)}
    small, sizes = gathered(graph, whole[finest])
    lengths: dict[int, float] = {}

    def length(power: int) -> float:
        if power not in lengths and power < finest:
            lengths[power] = describe(small, leiden(small, _STEP**power, seed), sizes).nats()
        elif power not in lengths:
            if power not in whole:
                whole[power] = leiden(graph, _STEP**power, seed)
            lengths[power] = description_length(graph, whole[power])
        return lengths[power]

    previous: int | None = None
    while best != previous:
        window = best, best - 1, best + 1
        best, previous = min(window, key=length), best
    labels = whole[best] if best in whole else leiden(graph, _STEP**best, seed)
    return Start(labels, _STEP**best)


def gathered(graph: sparse.csr_array, labels: np.ndarray) -> tuple[sparse.csr_array, np.ndarray]:
    """The graph of m communities (2m, 2m), and the number of nodes in each of its rows.

    Row m + c is a leaf of row c, and their edge weighs what lies inside community c: the degrees,
    and the modularity and description of any coarser partition, are those of the whole graph.
    Leiden drops self-loops, so the weight cannot stand at the community itself.
    """
    sizes = np.bincount(labels)
    m, entries = len(sizes), graph.tocoo()
    codes = labels.astype(np.int32)
    ends = codes[entries.row], codes[entries.col]
    apart = ends[0] != ends[1]
    within = np.bincount(ends[0][~apart], weights=entries.data[~apart], minlength=m) / 2
    inner = np.flatnonzero(within).astype(np.int32)
    rows = np.concatenate([ends[0][apart], inner, inner + m])
    columns = np.concatenate([ends[1][apart], inner + m, inner])
    weights = np.concatenate([entries.data[apart], within[inner], within[inner]])
    small = sparse.coo_array((weights, (rows, columns)), shape=(2 * m, 2 * m))
    return sparse.csr_array(small.tocsr()), np.append(sizes, np.zeros(m, dtype=np.int64))


def leiden(graph: sparse.csr_array, resolution: float, seed: int = 0) -> np.ndarray:
    """Maximise modularity at a resolution: int64 (n,). A node without neighbours stays alone."""
    n = graph.shape[0]
    if graph.nnz == 0:
        return np.arange(n)
    _, found = graspologic_native.leiden_csr(
        graph.indptr.astype(np.int64, copy=False),
        graph.indices.astype(np.int32, copy=False),
        graph.data.astype(np.float64, copy=False),
        n,
        resolution=resolution,
        seed=seed,
    )
    labels = np.arange(n) + n
    nodes = np.fromiter(found.keys(), np.int64, len(found))
    labels[nodes] = np.fromiter(found.values(), np.int64, len(found))
    return renumber(labels)


def renumber(labels: np.ndarray) -> np.ndarray:
    """Number communities 0, 1, … by their first member."""
    _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    numbered: np.ndarray = place[codes]
    return numbered


@dataclass(slots=True)
class DescriptionLength:
    """The terms of a partition's description length; merging updates them."""

    total: float  # total edge weight, each pair once
    within: float  # edge weight inside communities
    expected: float  # edge weight inside that the degrees predict
    num_nodes: int
    num_communities: int
    log_orders: float  # Σ ln(size!)

    def nats(self) -> float:
        """Length of the graph given the partition, plus length of the partition, in nats.

        Degree-corrected planted partition (Newman 2016, arXiv:1606.02319) at its most likely rates:
        −within ln(within / expected) − outside ln(outside / expected outside). The partition costs
        ln n for the number B of communities, ln C(n−1, B−1) for their sizes and ln(n! / Π size!)
        for the assignment of nodes (Peixoto 2014).
        """
        if self.num_nodes == 0:
            return 0.0
        n, b = self.num_nodes, self.num_communities
        likelihood = 0.0
        # A partition with fewer links inside than by chance is rejected, however short its
        # description.
        if self.within > self.expected:
            likelihood += _log_rate(self.within, self.expected)
            likelihood += _log_rate(self.total - self.within, self.total - self.expected)
        return _partition_nats(n, b) - self.log_orders - likelihood


@lru_cache
def _partition_nats(n: int, b: int) -> float:
    """The part of a partition's length that the numbers alone decide; merging asks it per pair."""
    sizes = math.lgamma(n) - math.lgamma(b) - math.lgamma(n - b + 1)
    return math.log(n) + sizes + math.lgamma(n + 1)


def _log_rate(seen: float, expected: float) -> float:
    """One term of the likelihood: seen × ln(seen / expected), or 0 if seen is 0."""
    return seen * math.log(seen / expected) if seen > 1e-9 and expected > 1e-9 else 0.0


def describe(
    graph: sparse.csr_array, labels: np.ndarray, sizes: np.ndarray | None = None
) -> DescriptionLength:
    """The description-length terms of a partition; `sizes` are the nodes that a row stands for."""
    entries = graph.tocoo()
    codes = labels.astype(np.int32)
    inside = codes[entries.row] == codes[entries.col]
    total = float(graph.data.sum()) / 2
    degrees = np.bincount(labels, weights=np.asarray(graph.sum(axis=1)).ravel())
    sizes = np.bincount(labels, weights=sizes)
    return DescriptionLength(
        total=total,
        within=float(entries.data[inside].sum()) / 2,
        expected=float((degrees**2).sum()) / (4 * total) if total else 0.0,
        num_nodes=int(sizes.sum()),
        num_communities=int((sizes > 0).sum()),
        log_orders=math.fsum(math.lgamma(size + 1) for size in sizes.tolist()),
    )


def description_length(graph: sparse.csr_array, labels: np.ndarray) -> float:
    """Description length of a graph under a partition, in nats."""
    return describe(graph, labels).nats()


def modularity(graph: sparse.csr_array, labels: np.ndarray) -> float:
    """Newman's modularity at resolution 1; 0 for a graph without edges."""
    found = describe(graph, labels)
    return (found.within - found.expected) / found.total if found.total else 0.0
