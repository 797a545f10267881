"""Random walks with restart over a graph of weighted links, as sparse products."""

from __future__ import annotations

import numpy as np
from scipy import sparse

RESTART = 0.15
STEPS = 5


def transitions(weights: sparse.csr_array) -> sparse.csr_array:
    """Probabilities of one step, transposed: entry (to, from), float32 (n, n).

    `weights` (n, n) are symmetric link weights, at least 0. The column of a node without a link is
    empty.
    """
    total = np.asarray(weights.sum(axis=1)).ravel()
    share = sparse.diags_array(1.0 / np.where(total > 0, total, 1.0))
    found = sparse.csr_array((share @ weights).T.tocsr().astype(np.float32))
    found.sort_indices()
    return found


def walk(
    step: sparse.csr_array, seeds: np.ndarray, restart: float = RESTART, steps: int = STEPS
) -> np.ndarray:
    """Expected place of a walk that begins at the seeds and returns with `restart`: float32 (n,).

    Personalised PageRank (Page et al. 1999; Haveliwala 2002) by a fixed number of power iterations,
    so that nothing further than `steps` links from a seed is reached. `step` is what `transitions`
    returns, `seeds` (n,) are weights of at least 0. All zero without a seed.
    """
    total = float(seeds.sum())
    if total <= 0:
        return np.zeros(len(seeds), np.float32)
    start = (seeds / total).astype(np.float32)
    place = start
    for _ in range(steps):
        place = restart * start + (1.0 - restart) * (step @ place)
    return place.astype(np.float32)
