"""Leiden's partition of a graph, as fine as the graph's own description length says."""

from __future__ import annotations

import math
from dataclasses import dataclass

import graspologic_native
import numpy as np
from scipy import sparse

_STEP = 2.0


@dataclass(frozen=True, slots=True)
class Start:
    """A partition by Leiden: community of each node, int64 (n,), numbered by first member."""

    labels: np.ndarray
    resolution: float


def start(graph: sparse.csr_array, seed: int = 0) -> Start:
    """Find Leiden's partition at the resolution of the shortest description.

    Resolutions are powers of 2; from one in the middle, the search walks to shorter
    descriptions until the two on either side are longer.
    """
    found: dict[int, tuple[float, np.ndarray]] = {}

    def length(power: int) -> float:
        if power not in found:
            labels = leiden(graph, _STEP**power, seed)
            found[power] = description_length(graph, labels), labels
        return found[power][0]

    # Where to begin decides the number of steps alone: communities are some √n.
    best = round(math.log(graph.shape[0] ** 0.5 / 8 + 1, _STEP))
    previous: int | None = None
    while best != previous:
        window = sorted(range(best - 2, best + 3), key=lambda power: abs(power - best))
        best, previous = min(window, key=length), best
    return Start(found[best][1], _STEP**best)


def leiden(graph: sparse.csr_array, resolution: float, seed: int = 0) -> np.ndarray:
    """Maximise modularity at a resolution; a node without neighbours stays alone: int64 (n,)."""
    n = graph.shape[0]
    if graph.nnz == 0:
        return np.arange(n)
    _, found = graspologic_native.leiden_csr(
        graph.indptr.astype(np.int64),
        graph.indices.astype(np.int32),
        graph.data.astype(np.float64),
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
    """What a partition's description length is made of; merging updates it in place."""

    total: float  # weight of the graph, each pair once
    within: float  # weight inside communities
    expected: float  # weight expected inside by the degrees
    num_nodes: int
    num_communities: int
    log_orders: float  # Σ ln(size!)

    def nats(self) -> float:
        """Length of the graph given the partition, plus that of the partition, in nats.

        Degree-corrected planted partition (Newman 2016, arXiv:1606.02319) at its most likely
        rates: −within ln(within / expected) − outside ln(outside / expected outside). The
        partition costs ln n for the number B of communities, ln C(n−1, B−1) for their sizes and
        ln(n! / Π size!) for who is where (Peixoto 2014).
        """
        if self.num_nodes == 0:
            return 0.0
        n, b = self.num_nodes, self.num_communities
        likelihood = 0.0
        # Fewer links within than by chance is no community, however well it describes the graph.
        if self.within > self.expected:
            likelihood += _log_rate(self.within, self.expected)
            likelihood += _log_rate(self.total - self.within, self.total - self.expected)
        sizes = math.lgamma(n) - math.lgamma(b) - math.lgamma(n - b + 1)
        return math.log(n) + sizes + math.lgamma(n + 1) - self.log_orders - likelihood


def _log_rate(seen: float, expected: float) -> float:
    """A term of the likelihood: seen × ln(seen / expected), 0 where nothing is seen."""
    return seen * math.log(seen / expected) if seen > 1e-9 and expected > 1e-9 else 0.0


def describe(graph: sparse.csr_array, labels: np.ndarray) -> DescriptionLength:
    """Sum up a partition of a graph."""
    entries = graph.tocoo()
    inside = labels[entries.row] == labels[entries.col]
    total = float(graph.data.sum()) / 2
    degrees = np.bincount(labels, weights=np.asarray(graph.sum(axis=1)).ravel())
    sizes = np.bincount(labels)
    return DescriptionLength(
        total=total,
        within=float(entries.data[inside].sum()) / 2,
        expected=float((degrees**2).sum()) / (4 * total) if total else 0.0,
        num_nodes=len(labels),
        num_communities=int((sizes > 0).sum()),
        log_orders=math.fsum(math.lgamma(size + 1) for size in sizes.tolist()),
    )


def description_length(graph: sparse.csr_array, labels: np.ndarray) -> float:
    """The description length of a graph by a partition, in nats."""
    return describe(graph, labels).nats()


def modularity(graph: sparse.csr_array, labels: np.ndarray) -> float:
    """Newman's modularity at resolution 1; 0 for a graph without edges."""
    found = describe(graph, labels)
    return (found.within - found.expected) / found.total if found.total else 0.0
