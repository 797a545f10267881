"""Random walks with restart over a graph of weighted links."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

RESTART = 0.15
STEPS = 5

Floats = npt.NDArray[np.float32]


def walk(
    step: Callable[[Floats], Floats], seeds: Floats, restart: float = RESTART, steps: int = STEPS
) -> Floats:
    """Expected place of a walk that begins at the seeds and returns with `restart`: float32 (n,).

    Personalised PageRank (Page et al. 1999; Haveliwala 2002) by a fixed number of power iterations,
    so that nothing further than `steps` links from a seed is reached. `step` moves each place along
    the links by their shares, `seeds` (n,) are weights of at least 0. All zero without a seed.
    """
    total = float(seeds.sum())
    if total <= 0:
        return np.zeros(len(seeds), np.float32)
    start = (seeds / total).astype(np.float32)
    place = start
    for _ in range(steps):
        place = restart * start + (1.0 - restart) * step(place)
    return place.astype(np.float32)
