"""The hypergraph of EbmKG: topics, weights and the walk as sparse arrays, and its files opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from srrag.reading.vocabulary import Matcher, Term
from srrag.storage.mapped_table import map_table
from srrag.storage.mirror import pull_build

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


ENTITIES, TOPICS, EVIDENCE = "entities.arrow", "topics.arrow", "evidence.arrow"
ALIASES = "aliases.arrow"
WEIGHTS = ("weights.data.npy", "weights.entity.npy", "weights.first.npy")
MEMBERS = ("members.evidence.npy", "members.first.npy")
NAME_VECTORS, TOPIC_VECTORS = "name_vectors.npy", "topic_vectors.npy"
EVIDENCE_VECTORS = "evidence_vectors.npy"
GRAM = "Gram"
"""The type of an entity that only the corpus's own words make."""


class Hypergraph:
    """Entities, topics and evidence by number.

    `weights` is topics × entities (Eq. 6), `to_topic` and `to_entity` the probabilities of the
    walk's steps. The pieces of topic t are `members[first_member[t]:first_member[t + 1]]`.
    """

    def __init__(self, folder: Path) -> None:
        """Map the files."""
        pull_build(folder)
        self.entities = map_table(folder / ENTITIES)
        self.topics = map_table(folder / TOPICS)
        self.evidence = map_table(folder / EVIDENCE)
        self._aliases = map_table(folder / ALIASES)
        self.members, self.first_member = (np.load(folder / n, mmap_mode="r") for n in MEMBERS)
        self.weights = self._read_weights(folder)
        self.name_vectors: Floats = np.load(folder / NAME_VECTORS, mmap_mode="r")
        self.topic_vectors = np.load(folder / TOPIC_VECTORS, mmap_mode="r")
        self.evidence_vectors: Floats = np.load(folder / EVIDENCE_VECTORS, mmap_mode="r")

    def _read_weights(self, folder: Path) -> sparse.csr_array:
        data, indices, first = (np.load(folder / name, mmap_mode="r") for name in WEIGHTS)
        shape = (self.topics.num_rows, self.entities.num_rows)
        return sparse.csr_array((np.asarray(data), np.asarray(indices), first), shape=shape)

    @cached_property
    def to_topic(self) -> sparse.csr_array:
        """Entities × topics: the probability of each topic after an entity."""
        return transition(sparse.csr_array(self.weights.T.tocsr()))

    @cached_property
    def to_entity(self) -> sparse.csr_array:
        """Topics × entities: the probability of each entity after a topic."""
        return transition(self.weights)

    @cached_property
    def named(self) -> Ints:
        """The entities that have a vector, in its order: all but the corpus's own words."""
        return np.flatnonzero(np.asarray(self.entities["type"].to_pylist()) != GRAM)

    @cached_property
    def topics_of_entity(self) -> Ints:
        """The number of topics that each entity has a weight in."""
        topics: Ints = np.diff(self.to_topic.indptr).astype(np.int64)
        return topics

    @cached_property
    def by_key(self) -> dict[str, int]:
        """The entities by normalised name; a name of the graph wins over one of the vocabulary."""
        aliases = zip(
            self._aliases["key"].to_pylist(), self._aliases["entity"].to_pylist(), strict=True
        )
        return dict(aliases) | {n: i for i, n in enumerate(self.entities["key"].to_pylist())}

    @cached_property
    def matcher(self) -> Matcher:
        """Finds the longest names of entities in a text; words of the corpus have the type ""."""
        rows = self.entities.select(["name", "type", "mesh"]).to_pylist()
        terms = [Term(row["name"], row["type"], row["mesh"]) for row in rows]
        return Matcher({name: terms[n] for name, n in self.by_key.items()})

    def members_of(self, topics: Sequence[int] | Ints) -> Ints:
        """The evidence of some topics, each once, in order of its first topic."""
        lists = [self.members[self.first_member[t] : self.first_member[t + 1]] for t in topics]
        flat = np.concatenate([np.zeros(0, np.int64), *lists])
        _, first = np.unique(flat, return_index=True)
        found: Ints = flat[np.sort(first)]
        return found

    def windows_of(self, evidence: Ints) -> pa.Array:
        """The window that shows each piece, "" for none."""
        return self.evidence["window_id"].combine_chunks().take(pa.array(evidence))
