"""The hypergraph of EbmKG as sparse arrays: topics, weights, and the walk over both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class HyperTopics:
    """Topics by entity, then label (EbmKG, Eq. 5).

    `entity` and `label` are (topics,); the pieces of evidence of topic t are
    `members[offsets[t]:offsets[t + 1]]`, in rising order.
    """

    entity: Ints
    label: Ints
    offsets: Ints
    members: Ints

    def __len__(self) -> int:
        """Number of topics."""
        return len(self.entity)

    def incidence(self, num_evidence: int) -> sparse.csr_array:
        """Topics × evidence, 1 where a topic holds a piece."""
        ones = np.ones(len(self.members), np.float32)
        shape = (len(self), num_evidence)
        return sparse.csr_array((ones, self.members, self.offsets), shape=shape)


def topics_of(evidence: Ints, entity: Ints, label: Ints, least: int = 1) -> HyperTopics:
    """Group pairs (evidence, entity) by entity and label: E_t = {e ∈ E_m: l_e = l_t}.

    The pairs are distinct; `label` is that of each piece of evidence. Topics of fewer than `least`
    pieces are left out.
    """
    num_labels = int(label.max(initial=0)) + 1
    group = entity * num_labels + label[evidence]
    order = np.lexsort((evidence, group))
    keys, counts = np.unique(group[order], return_counts=True)
    kept = counts >= least
    within = np.repeat(kept, counts)
    offsets = np.concatenate([[0], np.cumsum(counts[kept])]).astype(np.int64)
    return HyperTopics(
        keys[kept] // num_labels, keys[kept] % num_labels, offsets, evidence[order][within]
    )


def topic_weights(
    topics: HyperTopics, evidence: Ints, entity: Ints, shape: tuple[int, int]
) -> sparse.csr_array:
    """w(t, m): the share of a topic's evidence that names an entity (EbmKG, Eq. 6).

    `evidence` and `entity` are the distinct pairs, `shape` the numbers of both. Returns topics ×
    entities, float32, in (0, 1].
    """
    ones = np.ones(len(evidence), np.float32)
    names = sparse.csr_array((ones, (evidence, entity)), shape=shape)
    shared = sparse.csr_array(topics.incidence(shape[0]) @ names)
    sizes = np.diff(topics.offsets)
    shared.data /= np.repeat(sizes, np.diff(shared.indptr)).astype(np.float32)
    shared.sort_indices()
    return shared


def transition(weights: sparse.csr_array) -> sparse.csr_array:
    """The probabilities of a step from each row, in proportion to its weights."""
    totals = np.asarray(weights.sum(axis=1)).ravel()
    data = weights.data / np.repeat(totals, np.diff(weights.indptr))
    found = (data.astype(np.float32), weights.indices, weights.indptr)
    return sparse.csr_array(found, shape=weights.shape)


def expected_visits(
    to_topic: sparse.csr_array, to_entity: sparse.csr_array, seeds: Floats, steps: int
) -> Floats:
    """Expected visits of each topic, a walk: (topics,), for walks of at most `steps` steps.

    The walk begins at the entities in proportion to `seeds` (entities,), and every second step ends
    at a topic. This is the expectation of the sampled frequency (EbmKG, Eq. 7 and 8), computed by
    one sparse product a step. All zero without a seed.
    """
    visits = np.zeros(to_topic.shape[1], np.float32)
    total = float(seeds.sum())
    if total <= 0:
        return visits
    place = seeds / np.float32(total)
    for step in range(steps):
        place = _times(place, to_entity if step % 2 else to_topic)
        if step % 2 == 0:
            visits += place
    return visits


_DENSE = 1 / 5
"""Share of all weights above which a product over all rows is faster than one over some."""


def _times(place: Floats, matrix: sparse.csr_array) -> Floats:
    """A row vector times a matrix, by the rows where the vector is not 0."""
    rows = np.flatnonzero(place)
    sizes = matrix.indptr[rows + 1] - matrix.indptr[rows]
    if int(sizes.sum()) > _DENSE * matrix.nnz:
        found: Floats = matrix.T @ place
        return found
    some = matrix[rows] if len(rows) else matrix[:0]
    values = some.data * np.repeat(place[rows], sizes)
    return np.bincount(some.indices, values, matrix.shape[1]).astype(np.float32)
