"""Token precision, recall and F1 of P, I and O (EBM-NLP), from counts that can be added."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

CLASSES = ("P", "I", "O")
Labels = npt.NDArray[np.int8]
"""Class of each token: 0 none, else 1 + index in CLASSES."""
Counts = npt.NDArray[np.float64]
"""(3, 3) with a row per class: true positives, tokens found, and gold tokens."""


def token_counts(gold: Labels, found: Labels) -> Counts:
    """Count the tokens of each class; counts of several texts may be added."""
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
    out: dict[str, float] = {}
    for name, (hits, found, gold) in zip(CLASSES, counts.tolist(), strict=True):
        precision, recall = hits / max(1.0, found), hits / max(1.0, gold)
        total = precision + recall
        out[f"{name}_precision"] = precision
        out[f"{name}_recall"] = recall
        out[f"{name}_F1"] = 2 * precision * recall / total if total else 0.0
    out["token_macro_F1"] = sum(out[f"{name}_F1"] for name in CLASSES) / len(CLASSES)
    return out


def macro_f1_interval(
    counts: Counts, *, resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the macro F1, resampling documents with replacement.

    `counts` is (documents, 3, 3). Raises ValueError for no documents.
    """
    if not len(counts):
        raise ValueError("an interval needs at least one document")
    # Count how often each document is drawn, then use one matrix product for all resamples.
    drawn = np.random.default_rng(seed).multinomial(
        len(counts), np.full(len(counts), 1 / len(counts)), size=resamples
    )
    hits, found, gold = np.moveaxis(np.tensordot(drawn, counts, 1), 2, 0)
    # F1 = 2·hits / (found + gold), or 0 if both are 0.
    macro = (2 * hits / np.maximum(1.0, found + gold)).mean(1)
    tail = (1 - level) / 2
    low, high = np.quantile(macro, [tail, 1 - tail])
    return float(low), float(high)
