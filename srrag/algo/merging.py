"""Merging of communities by dual perception: SR-RAG §4.3, Eq. 13 and 14."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from srrag.algo.leiden import DescriptionLength, describe, renumber

_BLOCK = 256

Pair = tuple[float, int, int, int, int]
"""Gap, two communities, and the versions of both for which the gap was computed."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Result of merging: community of each node (n,), and the number of merges."""

    labels: np.ndarray
    num_merges: int


class Communities:
    """Communities as sums over their members, so that E[φ] of a pair needs no loop over members.

    For an entity i and a community C, Eq. 13 is φ(i, C) = S_r + λ S_s. S_r is the Jaccard
    similarity of the relation types of i and of C, S_s the mean cosine of the subgraph vectors of i
    and of the members of C. For its own community, i is left out of C; φ = 0 if C is then empty.
    """

    def __init__(
        self, labels: np.ndarray, vectors: np.ndarray, relations: np.ndarray, semantic_weight: float
    ) -> None:
        """Take unit `vectors` (n, d), `relations` bool (n, types), and `labels` 0 … m − 1 (n,)."""
        m, n = int(labels.max(initial=-1)) + 1, len(labels)
        self.size = np.bincount(labels, minlength=m).astype(float)
        self.sums = _sums(labels, vectors, m)
        self._weight = semantic_weight
        bits, kind = np.unique(np.packbits(relations, axis=1), axis=0, return_inverse=True)
        kinds = np.unpackbits(bits, axis=1, count=relations.shape[1])
        self._kinds = kinds.astype(np.float64)  # the distinct sets of relation types
        self._widths = self._kinds.sum(axis=1)
        counts = sparse.coo_array((np.ones(n), (labels, kind.ravel())), shape=(m, len(kinds)))
        rows = sparse.csr_array(counts.tocsr())
        self.holders = rows @ self._kinds  # how many members hold each type
        # The sets of relation types in each community, and how often each occurs.
        self._sets = [
            (rows.indices[a:b].astype(np.int64), rows.data[a:b])
            for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        ]
        self._own = np.array([self.own(a) for a in range(m)])

    def own(self, a: int) -> float:
        """E over the members i of a of φ(i, a without i)."""
        size = self.size[a]
        if size < 2:
            return 0.0
        semantic = (self.sums[a] @ self.sums[a] - size) / (size * (size - 1))
        types, once = self.holders[a] > 0, self.holders[a] == 1
        kinds, counts = self._sets[a]
        # Without i, the community lacks exactly the types that only i holds.
        shared = self._widths[kinds] - self._kinds[kinds] @ once
        relational = counts @ shared / (size * max(types.sum(), 1))
        return float(relational + self._weight * semantic)

    def other(self, a: int, others: np.ndarray) -> np.ndarray:
        """E over the members i of a of φ(i, b), for each b of `others`."""
        kinds, counts = self._sets[a]
        types = self.holders[others] > 0
        relational = counts @ self._jaccard(kinds, types) / self.size[a]
        found: np.ndarray = relational + self._weight * self._cosines(a, others)
        return found

    def others(self, a: int, others: np.ndarray) -> np.ndarray:
        """E over the members i of b of φ(i, a), for each b of `others`."""
        sets = [self._sets[b] for b in others.tolist()]
        starts = np.cumsum([0, *(len(kinds) for kinds, _ in sets)])[:-1]
        kinds = np.concatenate([kinds for kinds, _ in sets])
        counts = np.concatenate([counts for _, counts in sets])
        similar = self._jaccard(kinds, self.holders[a : a + 1] > 0)[:, 0]
        relational = np.add.reduceat(counts * similar, starts) / self.size[others]
        found: np.ndarray = relational + self._weight * self._cosines(a, others)
        return found

    def gaps(self, a: int, others: np.ndarray) -> np.ndarray:
        """The expected-affinity gap of Eq. 14 between a and each of `others`.

        The mean over the members of both of φ(i, own community) − φ(i, the other community).
        """
        left = self.size[a] * (self._own[a] - self.other(a, others))
        right = self.size[others] * (self._own[others] - self.others(a, others))
        # Rounding makes ties independent of the order of summation.
        found: np.ndarray = np.round((left + right) / (self.size[a] + self.size[others]), 9)
        return found

    def join(self, a: int, b: int) -> None:
        """Merge b into a."""
        self.size[a] += self.size[b]
        self.sums[a] += self.sums[b]
        self.holders[a] += self.holders[b]
        (kinds, counts), (more, number) = self._sets[a], self._sets[b]
        joint, place = np.unique(np.concatenate([kinds, more]), return_inverse=True)
        self._sets[a] = joint, np.bincount(place, weights=np.concatenate([counts, number]))
        self._own[a] = self.own(a)

    def _jaccard(self, kinds: np.ndarray, types: np.ndarray) -> np.ndarray:
        """Jaccard of k sets of relation types with those of m communities, bool (m, R): (k, m)."""
        common = self._kinds[kinds] @ types.T
        union = self._widths[kinds][:, None] + types.sum(axis=1) - common
        found: np.ndarray = common / np.maximum(union, 1)
        return found

    def _cosines(self, a: int, others: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.sums[others] @ self.sums[a] / (self.size[others] * self.size[a])
        return found


def _sums(labels: np.ndarray, vectors: np.ndarray, m: int) -> np.ndarray:
    """The sums of the members' vectors, float64 (m, d), a block of communities at a time."""
    n = len(labels)
    members = sparse.csr_array((np.ones(n), (labels, np.arange(n))), shape=(m, n))
    sums = np.empty((m, vectors.shape[1]))
    for start in range(0, m, _BLOCK):
        some = sparse.csr_array(members[start : start + _BLOCK])
        rows, some.indices = some.indices, np.arange(some.nnz)
        some.resize(some.shape[0], some.nnz)
        sums[start : start + _BLOCK] = some @ vectors[rows].astype(np.float64)
    return sums


class _Candidates:
    """Pairs of communities that the affinity graph links, smallest gap first."""

    def __init__(
        self, communities: Communities, graph: sparse.csr_array, labels: np.ndarray
    ) -> None:
        m = len(communities.size)
        entries = graph.tocoo()
        ends = labels[entries.row], labels[entries.col]
        linked = sparse.coo_array((entries.data, ends), shape=(m, m)).tocsr()
        self.weights: list[dict[int, float]] = []
        for a in range(m):
            row = slice(linked.indptr[a], linked.indptr[a + 1])
            pairs = zip(linked.indices[row].tolist(), linked.data[row].tolist(), strict=True)
            self.weights.append({b: weight for b, weight in pairs if b != a})
        degrees = np.bincount(labels, weights=np.asarray(graph.sum(axis=1)).ravel(), minlength=m)
        self.degrees: list[float] = degrees.tolist()
        self._sizes: list[float] = communities.size.tolist()  # faster one by one than an array
        self._orders = [math.lgamma(size + 1) for size in self._sizes]
        self._communities = communities
        self._version = [0] * m
        self._heap: list[Pair] = []
        for a in range(m):
            self._push(a, [b for b in self.weights[a] if b > a])

    def _push(self, a: int, others: list[int]) -> None:
        if not others:
            return
        gaps = self._communities.gaps(a, np.array(others, dtype=np.int64))
        for gap, b in zip(gaps.tolist(), others, strict=True):
            low, high = min(a, b), max(a, b)
            pair = (gap, low, high, self._version[low], self._version[high])
            heapq.heappush(self._heap, pair)

    def __iter__(self) -> Iterator[tuple[float, int, int]]:
        """Yield (gap, a, b) with a < b; the caller joins a pair, if at all, before the next."""
        while self._heap:
            gap, a, b, version_a, version_b = heapq.heappop(self._heap)
            if (version_a, version_b) == (self._version[a], self._version[b]):
                yield gap, a, b

    def describe_join(self, a: int, b: int, description: DescriptionLength) -> DescriptionLength:
        """The description length after a and b join."""
        expected = description.expected
        if description.total:
            expected += self.degrees[a] * self.degrees[b] / (2 * description.total)
        joint = math.lgamma(self._sizes[a] + self._sizes[b] + 1)
        return DescriptionLength(  # no dataclasses.replace, since every pair calls this
            total=description.total,
            within=description.within + self.weights[a].get(b, 0.0),
            expected=expected,
            num_nodes=description.num_nodes,
            num_communities=description.num_communities - 1,
            log_orders=description.log_orders + joint - (self._orders[a] + self._orders[b]),
        )

    def join(self, a: int, b: int) -> None:
        """Merge b into a, and compute the gaps of a anew."""
        self._communities.join(a, b)
        self._sizes[a] += self._sizes[b]
        self._orders[a] = math.lgamma(self._sizes[a] + 1)
        self.degrees[a] += self.degrees[b]
        for c, weight in self.weights[b].items():
            del self.weights[c][b]
            if c != a:
                self.weights[a][c] = self.weights[c][a] = self.weights[a].get(c, 0.0) + weight
        self._version[a] += 1
        self._version[b] += 1
        self._push(a, sorted(self.weights[a]))


def merge(
    labels: np.ndarray,
    graph: sparse.csr_array,
    vectors: np.ndarray,
    relations: np.ndarray,
    *,
    semantic_weight: float,
) -> Merged:
    """Merge linked communities, smallest expected-affinity gap first (SR-RAG Eq. 13–14).

    A pair merges if that does not lengthen the description of the affinity graph, so one rule sets
    the granularity for graphs of every size, where the paper leaves an ε to be found. `relations`
    is bool (n, relation types).
    """
    labels = renumber(labels)
    communities = Communities(labels, vectors, relations, semantic_weight)
    candidates = _Candidates(communities, graph, labels)
    steps = _follow(candidates, describe(graph, labels))
    root = np.arange(len(communities.size))
    for a, b in reversed(steps):
        root[b] = root[a]
    return Merged(renumber(root[labels]), len(steps))


def _follow(candidates: _Candidates, description: DescriptionLength) -> list[tuple[int, int]]:
    """Join pairs in order of rising gap that do not lengthen the description; returns the joins."""
    steps: list[tuple[int, int]] = []
    shortest = description.nats()
    for _, a, b in candidates:
        joint = candidates.describe_join(a, b, description)
        length = joint.nats()
        # At equal length prefer fewer communities; sums differ in their last digits.
        if length > shortest + 1e-9:
            continue
        description, shortest = joint, length
        candidates.join(a, b)
        steps.append((a, b))
    return steps
