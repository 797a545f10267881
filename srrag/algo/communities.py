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
    name_affinities,
    nearest,
    nearest_in_groups,
    subgraph_vectors,
)
from srrag.algo.leiden import modularity, renumber, start
from srrag.algo.merging import merge

_SWEEPS = 10
_LEAST_GAIN = 1e-9


@dataclass(frozen=True, slots=True)
class DetectionState:
    """State of a detection for the next one: one row per entity, in the order of the ids.

    `places` (n, d) are subgraph vectors, float32; `near` (n, k) are the rows of nearest neighbours,
    padded with the entity's own row; `name_degrees` (n,) is the sum of an entity's affinities by
    name. `density` is the resolution per unit of affinity.
    """

    labels: np.ndarray  # int64 (n,); −1 for an entity without a community so far
    places: np.ndarray
    near: np.ndarray
    name_degrees: np.ndarray
    basis: Basis
    density: float


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Affinities of the entities that may move: `rows` (f,) and `weights` (f, n)."""

    rows: np.ndarray
    weights: sparse.csr_array
    degrees: np.ndarray  # (n,) for all entities


def settle(standing: DetectionState) -> DetectionState:
    """Give entities without a community their nearest neighbours."""
    new = np.flatnonzero(standing.labels < 0)
    near = standing.near.copy()
    found = nearest_in_groups(standing.places, new, standing.labels, near.shape[1])
    near[new, : found.shape[1]] = found
    return replace(standing, near=near)


def neighbourhood(
    standing: DetectionState, free: np.ndarray, links: sparse.csr_array
) -> tuple[Neighbourhood, np.ndarray]:
    """Affinities of the rows `free`, and every entity's sum of affinities by name (n,)."""
    new = standing.labels < 0
    movable = np.zeros(len(new), dtype=bool)
    movable[free] = True
    ends, slots = np.nonzero(movable[:, None] | movable[standing.near])
    others = standing.near[ends, slots].astype(np.int64)
    cosines = np.einsum("pd,pd->p", standing.places[ends], standing.places[others])
    names = name_affinities(standing.near, ends, others, cosines)
    name_degrees = standing.name_degrees.copy()
    fresh = sparse.csr_array(names[np.flatnonzero(new)])
    name_degrees += np.where(new, 0.0, np.asarray(fresh.sum(axis=0)).ravel())
    name_degrees[new] = np.asarray(fresh.sum(axis=1)).ravel()
    degrees = np.asarray(links.sum(axis=1)).ravel() + name_degrees
    weights = sparse.csr_array(links[free] + names[free])
    weights.sort_indices()
    return Neighbourhood(free, weights, degrees), name_degrees


def move(around: Neighbourhood, labels: np.ndarray, density: float) -> np.ndarray:
    """Move single entities to the community with the largest modularity gain until none gains.

    Returns int64 (n,). Joining a community gains w − density k K, where w is the entity's weight to
    it, k the entity's degree and K the sum of the community's degrees; being alone gains 0.
    Entities without a community (−1) start alone. Ties go to the smaller number.
    """
    labels = labels.copy()
    alone = np.flatnonzero(labels < 0)
    labels[alone] = int(labels.max(initial=-1)) + 1 + np.arange(len(alone))
    volumes = np.bincount(labels, weights=around.degrees).tolist()
    bounds = around.weights.indptr.tolist()
    for _ in range(_SWEEPS):
        moved = False
        for number, row in enumerate(around.rows.tolist()):
            span = slice(bounds[number], bounds[number + 1])
            now = int(labels[row])
            to = _weights_to(labels[around.weights.indices[span]], around.weights.data[span])
            degree = float(around.degrees[row])
            volumes[now] -= degree
            target = _best(to, now, degree * density, volumes)
            volumes[target] += degree
            if target != now:
                labels[row] = target
                moved = True
        if not moved:
            break
    return labels


def _weights_to(labels: np.ndarray, weights: np.ndarray) -> dict[int, float]:
    found: dict[int, float] = {}
    for label, weight in zip(labels.tolist(), weights.tolist(), strict=True):
        found[label] = found.get(label, 0.0) + weight
    return found


def _best(to: dict[int, float], now: int, rate: float, volumes: list[float]) -> int:
    """The community with the largest gain; the present one wins ties.

    If the entity is better alone, a new community is appended to `volumes`.
    """
    best, most = now, to.get(now, 0.0) - rate * volumes[now]
    for label in sorted(to):
        gain = to[label] - rate * volumes[label]
        if gain > most + _LEAST_GAIN:
            best, most = label, gain
    if most < -_LEAST_GAIN:
        volumes.append(0.0)
        return len(volumes) - 1
    return best


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
