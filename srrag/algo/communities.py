"""Communities of an evidence graph: affinities, Leiden's partition, merging (Eq. 13–14).

The resolution, and every merge after it, is the one with the shortest description; the gaps of
Eq. 14, with λ of Eq. 13, order the merges. The paper ends them at an ε that it does not publish.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from srrag.algo.affinity import (
    Basis,
    affinity_graph,
    all_name_affinities,
    link_matrix,
    nearest,
    subgraph_vectors,
)
from srrag.algo.leiden import modularity, renumber, start
from srrag.algo.local_moving import DetectionState, move, neighbourhood, settle
from srrag.algo.merging import merge

SEMANTIC_WEIGHT = 2.0
"""λ of Eq. 13. Relation types separate topics less well than names, since all topics share them."""


@dataclass(frozen=True)
class EvidenceGraph:
    """Entities and relations as arrays, in an order that depends only on their ids.

    `vectors` (n, d) are unit vectors of the names, float32 or float16; `types` (n,) are codes from
    0. `heads` and `tails` (m,) are rows of entities, `relations` (m,) codes of relation types from
    0.
    """

    vectors: np.ndarray
    types: np.ndarray
    heads: np.ndarray
    tails: np.ndarray
    relations: np.ndarray

    @cached_property
    def links(self) -> sparse.csr_array:
        """Number of relations between each two entities."""
        return link_matrix(self.heads, self.tails, len(self.vectors))

    def relation_sets(self) -> np.ndarray:
        """Ψ: whether an entity takes part in a relation type, bool (n, relation types)."""
        held = np.zeros((len(self.vectors), int(self.relations.max(initial=-1)) + 1), dtype=bool)
        held[self.heads, self.relations] = True
        held[self.tails, self.relations] = True
        return held


@dataclass(frozen=True, slots=True)
class Detected:
    """Community of each entity before and after merging, with the values that decided it."""

    labels: np.ndarray  # int64 (n,), numbered by first member
    initial: np.ndarray  # int64 (n,), the partition of Leiden before merging
    resolution: float
    num_merges: int
    initial_modularity: float
    modularity: float
    standing: DetectionState


def detect(graph: EvidenceGraph, *, seed: int = 0) -> Detected:
    """Find the communities of a graph; every entity is in exactly one.

    Modularity is measured on the relations alone, at resolution 1.
    """
    links = graph.links
    basis = Basis.fit(graph.vectors, graph.types)
    places = subgraph_vectors(basis.coordinates(graph.vectors, graph.types), links)
    near, cosines = nearest(places)
    names = all_name_affinities(near, cosines)
    name_degrees = np.asarray(names.sum(axis=1)).ravel()
    affinity = affinity_graph(links, names)
    del names, cosines  # Leiden needs the memory
    begun = start(affinity, seed)
    merged = merge(
        begun.labels, affinity, places, graph.relation_sets(), semantic_weight=SEMANTIC_WEIGHT
    )
    standing = DetectionState(
        merged.labels, places, near, name_degrees, basis,
        density=begun.resolution / (float(affinity.sum()) or 1.0),
    )  # fmt: skip
    return Detected(
        labels=merged.labels,
        initial=begun.labels,
        resolution=begun.resolution,
        num_merges=merged.num_merges,
        initial_modularity=modularity(links, begun.labels),
        modularity=modularity(links, merged.labels),
        standing=standing,
    )


def update(
    graph: EvidenceGraph,
    standing: DetectionState,
    touched: np.ndarray,
) -> DetectionState:
    """Place new entities, let `touched` ones move, and keep every other one in its community.

    `standing` has one row per entity of `graph`, with label −1 for new ones; `touched` bool (n,)
    marks entities that gained or lost a relation. All subgraph vectors are computed again, in the
    former basis. Moves maximise the same objective as `detect`, at
    the same density.
    """
    links = graph.links
    free = np.flatnonzero(touched | (standing.labels < 0))
    coordinates = standing.basis.coordinates(graph.vectors, graph.types)
    standing = settle(replace(standing, places=subgraph_vectors(coordinates, links)))
    around, name_degrees = neighbourhood(standing, free, links)
    labels = move(around, standing.labels, standing.density)
    return replace(standing, labels=renumber(labels), name_degrees=name_degrees)
