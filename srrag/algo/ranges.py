"""Ranges of rows, flattened: the children of many parents at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def flat_ranges(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Return the numbers of all ranges [start, end), and for each number its range: (n,), (n,)."""
    sizes = ends - starts
    owner = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return starts[owner] + within, owner


def group_means(values: Floats, group: Ints, size: int) -> Floats:
    """The mean of the values of each group, -inf for an empty one: (size,)."""
    totals = np.bincount(group, values, size)
    counts = np.bincount(group, minlength=size)
    return np.where(counts > 0, totals / np.maximum(counts, 1), -np.inf)


def top_means(values: Floats, group: Ints, top: int, size: int) -> Floats:
    """The sum of each group's best `top` values over `top`, so a missing one counts 0: (size,)."""
    order = np.lexsort((-values, group))
    group = group[order]
    starts = np.searchsorted(group, np.arange(size))
    place = np.arange(len(group)) - starts[group]
    kept = place < top
    found: Floats = np.bincount(group[kept], values[order][kept], size) / top
    return found
