"""How similar the chapters of a book are: RASRAG's diagnostics (appendix A.1) on arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TEMPERATURES = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
"""τ of the softmax, as swept in the paper."""


@dataclass(frozen=True)
class Relatedness:
    """At one τ, for each BTU: H_norm and p_max over other chapters, and the mass of its own."""

    entropy: Floats
    top_mass: Floats
    own_mass: Floats


def pair_cosines(vectors: Floats, chapters: Ints) -> tuple[Floats, Floats]:
    """Return the cosines of all pairs of BTUs within a chapter, and of all across chapters.

    `vectors` (BTUs, dim) have length 1; each pair counts once, and no BTU is paired with itself.
    """
    first, second = np.triu_indices(len(vectors), k=1)
    cosines = (vectors @ vectors.T)[first, second]
    same = chapters[first] == chapters[second]
    return cosines[same], cosines[~same]


def relatedness(vectors: Floats, chapters: Ints, temperature: float) -> Relatedness:
    """Return the three measures of each BTU at a temperature.

    H_norm and p_max come from softmax_τ over x · μ of the other chapters' centroids μ (not
    normalised), the entropy divided by log(chapters - 1); own mass from softmax_τ over the cosines
    with all BTUs, itself included. Chapters are numbered from 0. Raises ValueError for fewer than
    three chapters, where the entropy has no scale, and for a temperature of 0 or less.
    """
    count = int(chapters.max(initial=-1)) + 1
    if count < 3:
        raise ValueError(f"{count} chapters: at least 3 are needed, so that two are others")
    if not temperature > 0:
        raise ValueError(f"the temperature is {temperature}: it has to be positive")
    sums = np.zeros((count, vectors.shape[1]))
    np.add.at(sums, chapters, vectors)
    centroids = sums / np.bincount(chapters, minlength=count)[:, None]
    affinity = vectors @ centroids.T
    affinity[np.arange(len(vectors)), chapters] = -np.inf
    others = softmax(affinity, temperature)
    logs = np.log(np.where(others > 0, others, 1.0))
    entropy = -(others * logs).sum(axis=1) / np.log(count - 1)
    mass = softmax(vectors @ vectors.T, temperature)
    own = (mass * (chapters[:, None] == chapters[None, :])).sum(axis=1)
    return Relatedness(entropy, others.max(axis=1), own)


def softmax(scores: Floats, temperature: float) -> Floats:
    """Softmax of each row of scores / τ; -inf has no mass."""
    shifted = (scores - scores.max(axis=1, keepdims=True)) / temperature
    weights = np.exp(shifted)
    found: Floats = weights / weights.sum(axis=1, keepdims=True)
    return found


def medians(values: Floats, chapters: Ints) -> Floats:
    """The median over each chapter's BTUs: (chapters,)."""
    return np.array([np.median(values[chapters == c]) for c in range(int(chapters.max()) + 1)])
