"""Metrics of classifiers of pairs and of tokens, and folds of questions to measure them on.

Weights make a bootstrap possible without copies: a row of weights holds how often each pair was
drawn. Labels are 0 or 1, float64 (pairs,); scores or probabilities are float64 (pairs,); weights
are float64 (draws, pairs).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from srrag.algo.significance import Interval, counts_intervals

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BINS = 10
_BLOCK_NUMBERS = 1 << 18
_STEPS, _STEP_BELOW = 100, 1e-10


def auroc(labels: Floats, scores: Floats, weights: Floats) -> Floats:
    """The chance that a positive pair scores above a negative one; ties count half: (draws,).

    A draw without both classes gives .5.
    """
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    starts = np.flatnonzero(np.diff(ranked, prepend=-np.inf))
    positive = np.add.reduceat(weights[:, order] * labels[order], starts, axis=1)
    negative = np.add.reduceat(weights[:, order] * (1 - labels[order]), starts, axis=1)
    below = np.cumsum(negative, axis=1) - negative / 2
    pairs = positive.sum(axis=1) * negative.sum(axis=1)
    area = (positive * below).sum(axis=1)
    found: Floats = np.divide(area, pairs, out=np.full(len(area), 0.5), where=pairs > 0)
    return found


def precision_recall_f1(
    labels: Floats, said_yes: Floats, weights: Floats
) -> tuple[Floats, Floats, Floats]:
    """Precision, recall and F1 of the positive class, (draws,) each.

    A figure whose denominator is 0 is 0.
    """
    hits = weights @ (labels * said_yes)
    called, real = weights @ said_yes, weights @ labels
    return _share(hits, called), _share(hits, real), _share(2 * hits, called + real)


def expected_calibration_error(
    labels: Floats, probabilities: Floats, weights: Floats, bins: int = BINS
) -> Floats:
    """Mean gap between probability and share of positives, over equal-width bins: (draws,)."""
    place = np.minimum((probabilities * bins).astype(np.int64), bins - 1)
    gaps = (probabilities - labels)[:, None] * (place[:, None] == np.arange(bins))
    return _share(np.abs(weights @ gaps).sum(axis=1), weights.sum(axis=1))


def figures(
    labels: Floats, probabilities: Floats, threshold: float, weights: Floats | None = None
) -> dict[str, Floats]:
    """Precision, recall, F1, AUROC and ECE, (draws,) each. Default weights: one draw of ones."""
    once = np.ones((1, len(labels))) if weights is None else weights
    said_yes = (probabilities >= threshold).astype(np.float64)
    precision, recall, f1 = precision_recall_f1(labels, said_yes, once)
    return {
        "precision": precision,
        "recall": recall,
        "F1": f1,
        "AUROC": auroc(labels, probabilities, once),
        "ECE": expected_calibration_error(labels, probabilities, once),
    }


def bootstrap_weights(groups: Ints, *, resamples: int, seed: int) -> Iterator[Floats]:
    """Draw whole groups (questions); yields how often each pair is drawn, in blocks (draws, pairs).

    Pairs of one question are not independent, so they are drawn together.
    """
    rng = np.random.default_rng(seed)
    size = int(groups.max()) + 1
    block = max(1, min(resamples, _BLOCK_NUMBERS // len(groups)))
    sizes = [min(block, resamples - start) for start in range(0, resamples, block)]
    even = np.full(size, 1 / size)
    for some in sizes:
        yield rng.multinomial(size, even, some).astype(np.float64)[:, groups]


def best_threshold(labels: Floats, scores: Floats) -> float:
    """The threshold with the highest F1, halfway between two scores; the highest of equal ones.

    Raises ValueError unless both classes occur.
    """
    if not 0 < labels.sum() < len(labels):
        raise ValueError("a threshold is chosen on pairs of both classes")
    order = np.argsort(-scores, kind="stable")
    ranked, real = scores[order], labels[order]
    called = np.arange(1, len(ranked) + 1)
    f1 = 2 * np.cumsum(real) / (called + real.sum())
    last = np.append(ranked[:-1] > ranked[1:], True)
    best = int(np.argmax(np.where(last, f1, -1.0)))
    after = ranked[best + 1] if best + 1 < len(ranked) else ranked[best]
    return float((ranked[best] + after) / 2)


def expected_threshold(probabilities: Floats) -> float:
    """The threshold with the highest expected F1 if the probabilities are calibrated.

    It needs no labels, so it overfits far less than the best F1 of a few hundred pairs. The
    threshold is halfway between two probabilities. Raises ValueError if no probability is above 0.
    """
    ranked = np.sort(probabilities)[::-1]
    if not len(ranked) or not ranked[0] > 0:
        raise ValueError("a threshold needs a probability above 0")
    f1 = 2 * np.cumsum(ranked) / (np.arange(1, len(ranked) + 1) + ranked.sum())
    best = int(np.argmax(f1))
    after = ranked[best + 1] if best + 1 < len(ranked) else ranked[best]
    return float((ranked[best] + after) / 2)


def fit_logistic(features: Floats, labels: Floats, ridge: float = 1e-3) -> Floats:
    """Logistic regression by Newton's method: weights of the features, then the intercept.

    Minimises the summed log loss plus ridge / 2 times the squared weights (without the intercept);
    `features` is (pairs, features). Raises ValueError for values that are not finite.
    """
    if not np.isfinite(features).all():
        raise ValueError("logistic regression: a feature is not finite")
    design = np.column_stack([features, np.ones(len(features))])
    penalty = np.diag(np.append(np.full(features.shape[1], ridge), 1e-9))
    beta = np.zeros(design.shape[1])

    def loss(at: Floats) -> float:
        logits = design @ at
        return float((np.logaddexp(0, logits) - labels * logits).sum() + at @ penalty @ at / 2)

    for _ in range(_STEPS):
        mean = sigmoid(design @ beta)
        gradient = design.T @ (mean - labels) + penalty @ beta
        curvature = (design.T * (mean * (1 - mean) + 1e-12)) @ design + penalty
        step = np.linalg.solve(curvature, gradient)
        scale = 1.0
        while loss(beta - scale * step) > loss(beta) and scale > _STEP_BELOW:
            scale /= 2
        beta = beta - scale * step
        if float(np.abs(scale * step).max()) < _STEP_BELOW:
            break
    return beta


def sigmoid(logits: Floats) -> Floats:
    """1 / (1 + e^-x) without overflow."""
    found: Floats = np.exp(-np.logaddexp(0, -logits))
    return found


def _share(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


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


def token_figures(counts: Counts) -> dict[str, float]:
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
