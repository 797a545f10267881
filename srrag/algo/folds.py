"""Folds of questions: a fit to some folds is measured on the others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

FOLDS = 5


def question_fold(text: str) -> int:
    """The fold of a question, 0 … FOLDS - 1, by a hash of its words, so repeats share it."""
    words = "".join(c if c.isalnum() else " " for c in text.casefold()).split()
    return int(hashlib.sha256(" ".join(words).encode()).hexdigest()[:8], 16) % FOLDS


def held_names(names: Iterable[str], share: float, seed: int, least: int = 0) -> set[str]:
    """A random `share` of the distinct names, rounded, at least `least`, to hold out.

    It depends on the names and the seed, not on the order.
    """
    distinct = sorted(set(names))
    order = np.random.default_rng(seed).permutation(len(distinct)).tolist()
    return {distinct[place] for place in order[: max(least, round(share * len(distinct)))]}
