"""Decisions from held-out pairs: calibration, threshold, and when to abstain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from srrag.algo.classification import expected_threshold, fit_logistic
from srrag.lab.train.filter.pairs import JudgedPairs
from srrag.model.filter import Decision, Fusion

Floats = npt.NDArray[np.float64]


def decide(
    pairs: JudgedPairs, logits: Floats, cosines: Floats | None, precision: float
) -> Decision:
    """Calibrate log-odds (and cosines, if given), and choose both thresholds.

    Calibration is a logistic regression (Platt scaling). The threshold maximises the F1 expected
    under the calibrated probabilities. The answer threshold is the lowest at which the best passage
    is evidence for a share `precision` of the answered questions. `pairs` belong to the logits, and
    none of them was trained on.
    """
    features = [logits] if cosines is None else [logits, cosines]
    *weights, bias = fit_logistic(np.column_stack(features), pairs.labels).tolist()
    cosine = 0.0 if cosines is None else weights[1]
    fusion = Fusion(logit=weights[0], cosine=cosine, bias=bias)
    probabilities = fusion.probabilities(
        logits, np.zeros(len(logits)) if cosines is None else cosines
    )
    threshold = expected_threshold(probabilities)
    curve = trade_off(pairs, probabilities, threshold)
    return Decision(
        fusion=fusion, threshold=threshold, answer_threshold=answer_threshold(curve, precision)
    )


@dataclass(frozen=True)
class TradeOff:
    """The effect of abstaining below each threshold, from answering every question to the fewest.

    All fields are (thresholds,). `best_is_evidence` is the share of answered questions whose best
    passage is evidence. `precision` and `recall` are those of the kept passages. `F1` is over all
    passages, where an unanswered question keeps none.
    """

    thresholds: Floats
    answered: Floats
    best_is_evidence: Floats
    precision: Floats
    F1: Floats


def trade_off(pairs: JudgedPairs, probabilities: Floats, threshold: float) -> TradeOff:
    """The trade-off at every threshold that a question's best probability can reach."""
    order = np.lexsort((-probabilities, pairs.groups))
    first = order[np.flatnonzero(np.diff(pairs.groups[order], prepend=-1))]
    best, right = probabilities[first], pairs.labels[first]
    thresholds = np.unique(best)
    answers = best[None, :] >= thresholds[:, None]
    kept = (probabilities >= threshold) & (
        probabilities[first][pairs.groups] >= thresholds[:, None]
    )
    hits = kept @ pairs.labels
    called = kept.sum(axis=1)
    return TradeOff(
        thresholds,
        answers.mean(axis=1),
        (answers @ right) / answers.sum(axis=1),
        np.divide(hits, called, out=np.ones(len(hits)), where=called > 0),
        2 * hits / (called + pairs.labels.sum()),
    )


def answer_threshold(curve: TradeOff, precision: float) -> float:
    """The lowest threshold that reaches `precision`; above all of them if none does."""
    met = np.flatnonzero(curve.best_is_evidence >= precision)
    return float(curve.thresholds[met[0]]) if len(met) else 1.0


def at_threshold(curve: TradeOff, threshold: float) -> dict[str, float]:
    """The figures of the curve at an answer threshold."""
    place = int(np.searchsorted(curve.thresholds, threshold))
    if place == len(curve.thresholds):
        return {"answered": 0.0, "F1": 0.0}
    names = ("answered", "best_is_evidence", "precision", "F1")
    return {name: float(getattr(curve, name)[place]) for name in names}
