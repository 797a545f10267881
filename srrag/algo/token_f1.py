"""Token precision, recall and F1 of P, I and O (EBM-NLP), from counts that can be added."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from srrag.algo.intervals import Interval, counts_intervals

CLASSES = ("P", "I", "O")
Labels = npt.NDArray[np.int8]
"""Class of each token: 0 none, else 1 + index in CLASSES."""
Counts = npt.NDArray[np.float64]
"""(3, 3) with a row per class: true positives, tokens found, and gold tokens."""


def token_counts(gold: Labels, found: Labels) -> Counts:
    """Count the tokens of each class; counts of several texts can be added."""
    return np.array(
        [
            [np.sum((gold == c) & (found == c)), np.sum(found == c), np.sum(gold == c)]
            for c in range(1, len(CLASSES) + 1)
        ],
        np.float64,
    )


def figures(counts: Counts) -> dict[str, float]:
    """Precision, recall and F1 of each class, and `token_macro_F1`, the mean of the three F1.

    A class without gold and found tokens scores 0, like a class without a true positive.
    """
    return {name: float(values[0]) for name, values in _figures(counts[None]).items()}


def figure_intervals(
    counts: Counts, *, resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> dict[str, Interval]:
    """The same figures with percentile bootstrap intervals over documents, by name.

    `counts` is (documents, 3, 3). Raises ValueError for no documents.
    """
    if not len(counts):
        raise ValueError("an interval needs at least one document")
    return counts_intervals(counts, _figures, resamples=resamples, level=level, seed=seed)


def _figures(counts: Counts) -> dict[str, Counts]:
    """The figures of each of several counts (n, 3, 3), by name."""
    hits, found, gold = np.moveaxis(counts, 2, 0)
    scores = hits / np.maximum(1.0, found), hits / np.maximum(1.0, gold)
    f1 = 2 * hits / np.maximum(1.0, found + gold)  # 0 if both are 0
    out: dict[str, Counts] = {}
    for place, name in enumerate(CLASSES):
        for each, values in zip(("precision", "recall", "F1"), (*scores, f1), strict=True):
            out[f"{name}_{each}"] = values[:, place]
    return {**out, "token_macro_F1": f1.mean(axis=1)}
