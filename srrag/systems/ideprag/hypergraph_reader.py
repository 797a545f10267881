"""The opened hypergraph: entities by name, topics, weights, evidence."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from srrag.reading.vocabulary import Matcher, Term
from srrag.storage.mapped_table import map_table
from srrag.storage.mirror import pull_build
from srrag.systems.ideprag.build_hypergraph import (
    ALIASES,
    ENTITIES,
    EVIDENCE,
    EVIDENCE_VECTORS,
    GRAM,
    MEMBERS,
    NAME_VECTORS,
    TOPIC_VECTORS,
    TOPICS,
    WEIGHTS,
)
from srrag.systems.ideprag.incidence import transition

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


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
    def pieces(self) -> Ints:
        """The number of pieces of evidence of each entity."""
        return np.asarray(self.entities["pieces"], np.int64)

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
