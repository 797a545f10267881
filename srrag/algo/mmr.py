"""Maximal marginal relevance: choose relevant items that differ from those already chosen."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_DECIMALS = 9
"""Digits to which values are compared, so that the order of summation decides no tie."""


def mmr(relevance: Floats, similarity: Floats, count: int, weight: float = 0.75) -> Ints:
    """Positions of at most `count` items, in the order in which they are chosen.

    Each step takes the item with the highest weight · relevance − (1 − weight) · the highest
    similarity to an item chosen before (Carbonell and Goldstein 1998; λ = `weight`); ties go to the
    first. `relevance` has shape (items,), `similarity` (items, items). Raises ValueError for a
    weight outside 0…1 or shapes that disagree.
    """
    if not 0.0 <= weight <= 1.0:
        raise ValueError(f"weight {weight} is outside 0…1")
    size = len(relevance)
    if similarity.shape != (size, size):
        raise ValueError(f"similarity has shape {similarity.shape}, not ({size}, {size})")
    nearest = np.zeros(size)
    left = np.ones(size, np.bool_)
    chosen: list[int] = []
    for _ in range(min(count, size)):
        worth = np.round(weight * relevance - (1.0 - weight) * nearest, _DECIMALS)
        best = int(np.argmax(np.where(left, worth, -np.inf)))
        chosen.append(best)
        left[best] = False
        nearest = np.maximum(nearest, similarity[best])
    return np.array(chosen, np.int64)


def cosines(left: Floats, right: Floats) -> Floats:
    """Cosines of unit vectors: (n, d) with (m, d) gives (n, m), within −1…1."""
    found: Floats = np.clip(left @ right.T, -1.0, 1.0)
    return found
