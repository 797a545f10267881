"""Local moves: new and touched entities find their communities while all others stay."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from srrag.algo.affinity import Basis, name_affinities, nearest_in_groups

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
