"""Communities of an evidence graph: affinities, Leiden's start, then the merging of Eq. 13–14."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from srrag.algo.affinity import affinity_graph, link_matrix, nearest, nearest_to, subgraph_vectors
from srrag.algo.leiden import leiden, modularity, renumber, start
from srrag.algo.merging import merge

SEMANTIC_WEIGHT = 2.0
"""λ of Eq. 13. Relation types tell topics apart less than names do: all topics share them."""


@dataclass(frozen=True, slots=True)
class EvidenceGraph:
    """Entities and relations as arrays, in an order that depends on their ids alone.

    `vectors` (n, d) unit vectors of the names, `types` (n,) codes from 0; `heads`, `tails` and
    `relations` (m,) are rows of entities and codes of relation types from 0.
    """

    vectors: np.ndarray
    types: np.ndarray
    heads: np.ndarray
    tails: np.ndarray
    relations: np.ndarray

    def links(self) -> sparse.csr_array:
        """The number of relations between each two entities."""
        return link_matrix(self.heads, self.tails, len(self.vectors))

    def relation_sets(self) -> np.ndarray:
        """Ψ: whether an entity takes part in a type of relation, bool (n, relation types)."""
        held = np.zeros((len(self.vectors), int(self.relations.max(initial=-1)) + 1), dtype=bool)
        held[self.heads, self.relations] = True
        held[self.tails, self.relations] = True
        return held


@dataclass(frozen=True, slots=True)
class Detected:
    """Community of each entity before and after merging, with what led there."""

    labels: np.ndarray  # int64 (n,), numbered by first member
    initial: np.ndarray  # the same after Leiden
    resolution: float
    density: float  # the resolution by unit of affinity: the same in a part of the graph
    num_merges: int
    epsilon: float
    initial_modularity: float
    modularity: float


def detect(
    graph: EvidenceGraph,
    *,
    semantic_weight: float = SEMANTIC_WEIGHT,
    epsilon: float | None = None,
    max_communities: int | None = None,
    seed: int = 0,
) -> Detected:
    """Find the communities of a graph: every entity is in exactly one.

    `epsilon` of Eq. 14 is found by description length unless given. Modularity is that of the
    relations alone, at resolution 1.
    """
    links = graph.links()
    vectors = subgraph_vectors(graph.vectors, graph.types, links)
    affinity = affinity_graph(links, *nearest(vectors))
    begun = start(affinity, seed)
    merged = merge(
        begun.labels,
        affinity,
        vectors,
        graph.relation_sets(),
        semantic_weight=semantic_weight,
        epsilon=epsilon,
        max_communities=max_communities,
    )
    return Detected(
        labels=merged.labels,
        initial=begun.labels,
        resolution=begun.resolution,
        density=begun.resolution / (float(affinity.sum()) or 1.0),
        num_merges=merged.num_merges,
        epsilon=merged.epsilon,
        initial_modularity=modularity(links, begun.labels),
        modularity=modularity(links, merged.labels),
    )


def update(
    graph: EvidenceGraph,
    former: np.ndarray,
    touched: np.ndarray,
    *,
    density: float,
    epsilon: float,
    semantic_weight: float = SEMANTIC_WEIGHT,
    seed: int = 0,
) -> np.ndarray:
    """Run touched neighbourhoods again and leave every other community as it was: int64 (n,).

    `former` (n,) holds the community of each entity before, −1 for new ones; `touched` (n,) marks
    entities whose name or relations changed or that lost a neighbour. The region is the
    communities of these and of whatever is linked or near to them. `density` and `epsilon` are
    those that `detect` found, so that the region is cut as finely as the rest.
    """
    links = graph.links()
    vectors = subgraph_vectors(graph.vectors, graph.types, links)
    seen = touched | (former < 0)
    around = seen | (links @ seen.astype(float) > 0)
    around[nearest_to(vectors, np.flatnonzero(seen)).ravel()] = True
    region = np.flatnonzero(seen | np.isin(former, np.unique(former[around & (former >= 0)])))
    if not len(region):
        return renumber(former)
    near = nearest(vectors[region])
    inner = affinity_graph(sparse.csr_array(links[region][:, region]), *near)
    weight = float(inner.sum())
    # Modularity compares with the graph's whole weight: a part of it has less, and a lower γ.
    begun = leiden(inner, density * weight, seed) if weight else np.arange(len(region))
    merged = merge(
        begun,
        inner,
        vectors[region],
        graph.relation_sets()[region],
        semantic_weight=semantic_weight,
        epsilon=epsilon,
    )
    labels = former.copy()
    labels[region] = former.max(initial=-1) + 1 + merged.labels
    return renumber(labels)
