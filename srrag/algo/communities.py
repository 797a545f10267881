"""Communities of an evidence graph: affinities, Leiden's partition, merging (Eq. 13–14).

Method `leiden` is Leiden with a description-length rule: the resolution, and every merge after it,
is the one with the shortest description; λ only orders the merges, ε does not count. Method `paper`
is Eq. 13–14: a finer partition is merged pair by pair while the gap of affinities is below ε.
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
from srrag.algo.leiden import Start, leiden, modularity, renumber, start
from srrag.algo.local_moving import DetectionState, Neighbourhood, move, neighbourhood, settle
from srrag.algo.merging import merge

SEMANTIC_WEIGHT = 2.0
"""λ of Eq. 13. Relation types separate topics less well than names, since all topics share them."""

EPSILON = 0.2
"""ε of Eq. 14 for the method `paper`; the paper publishes none."""
FINER = 4.0
"""The method `paper` begins at this many times the resolution with the shortest description."""
METHODS = ("leiden", "paper")


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
    epsilon: float
    initial_modularity: float
    modularity: float
    standing: DetectionState


def detect(
    graph: EvidenceGraph,
    *,
    method: str = "leiden",
    semantic_weight: float = SEMANTIC_WEIGHT,
    epsilon: float | None = None,
    max_communities: int | None = None,
    seed: int = 0,
) -> Detected:
    """Find the communities of a graph; every entity is in exactly one.

    The method `paper` merges by `epsilon`, EPSILON unless it is given; without one, `leiden` merges
    by the description length. Modularity is measured on the relations alone, at resolution 1.
    """
    links = graph.links
    basis = Basis.fit(graph.vectors, graph.types)
    places = subgraph_vectors(basis.coordinates(graph.vectors, graph.types), links)
    near, cosines = nearest(places)
    names = all_name_affinities(near, cosines)
    name_degrees = np.asarray(names.sum(axis=1)).ravel()
    affinity = affinity_graph(links, names)
    del names, cosines  # Leiden needs the memory
    shortest = begun = start(affinity, seed)
    if method == "paper":
        finer = shortest.resolution * FINER
        begun = Start(leiden(affinity, finer, seed), finer)
        epsilon = EPSILON if epsilon is None else epsilon
    merged = merge(
        begun.labels, affinity, places, graph.relation_sets(), semantic_weight=semantic_weight,
        epsilon=epsilon, max_communities=max_communities,
    )  # fmt: skip
    standing = DetectionState(
        merged.labels, places, near, name_degrees, basis,
        density=shortest.resolution / (float(affinity.sum()) or 1.0),
    )  # fmt: skip
    return Detected(
        labels=merged.labels,
        initial=begun.labels,
        resolution=begun.resolution,
        num_merges=merged.num_merges,
        epsilon=merged.epsilon,
        initial_modularity=modularity(links, begun.labels),
        modularity=modularity(links, merged.labels),
        standing=standing,
    )


def update(
    graph: EvidenceGraph,
    standing: DetectionState,
    touched: np.ndarray,
    *,
    semantic_weight: float = SEMANTIC_WEIGHT,
    epsilon: float | None = None,
    max_communities: int | None = None,
) -> DetectionState:
    """Place new entities, let `touched` ones move, and keep every other one in its community.

    `standing` has one row per entity of `graph`, with label −1 for new ones; `touched` bool (n,)
    marks entities that gained or lost a relation. All subgraph vectors are computed again, in the
    former basis. Moves maximise the same objective as `detect`, at
    the same density. If `epsilon` is given, new communities then merge with those around them (Eq.
    13–14). The other entities keep their companions unless whole communities merge: by `epsilon`,
    or above `max_communities`, as in `detect`.
    """
    links = graph.links
    free = np.flatnonzero(touched | (standing.labels < 0))
    coordinates = standing.basis.coordinates(graph.vectors, graph.types)
    standing = settle(replace(standing, places=subgraph_vectors(coordinates, links)))
    around, name_degrees = neighbourhood(standing, free, links)
    labels = move(around, standing.labels, standing.density)
    relations = graph.relation_sets()
    if epsilon is not None:
        labels = _merge_born(labels, around, standing, relations, semantic_weight, epsilon)
    if max_communities is not None and len(np.unique(labels)) > max_communities:
        none = sparse.csr_array(links.shape)
        labels = merge(
            labels, none, standing.places, relations, semantic_weight=semantic_weight,
            epsilon=-np.inf, max_communities=max_communities,
        ).labels  # fmt: skip
    return replace(standing, labels=renumber(labels), name_degrees=name_degrees)


def _merge_born(
    labels: np.ndarray,
    around: Neighbourhood,
    standing: DetectionState,
    relations: np.ndarray,
    semantic_weight: float,
    epsilon: float,
) -> np.ndarray:
    """Merge new communities with each other and with the communities they are linked to."""
    born = np.unique(labels[labels > standing.labels.max(initial=-1)])
    mine = np.isin(labels[around.rows], born)
    linked = labels[around.weights[np.flatnonzero(mine)].indices]
    rows = np.flatnonzero(np.isin(labels, np.union1d(born, linked)))
    if not len(rows):
        return labels
    place = np.full(len(labels), -1)
    place[rows] = np.arange(len(rows))
    weights = sparse.csr_array(around.weights[np.flatnonzero(mine)][:, rows]).tocoo()
    ends = place[around.rows[mine]][weights.row], weights.col
    graph = sparse.csr_array((weights.data, ends), shape=(len(rows), len(rows)))
    merged = merge(
        labels[rows], graph.maximum(graph.T).tocsr(), standing.places[rows], relations[rows],
        semantic_weight=semantic_weight, epsilon=epsilon,
    )  # fmt: skip
    labels = labels.copy()
    labels[rows] = int(labels.max(initial=-1)) + 1 + merged.labels
    return labels
