"""Fit the weights of named features to questions with gold, and cross-fit their value.

A pairwise logistic model with weights of at least 0: SR-RAG's Eq. 8 over any features. A pair sets
a relevant candidate against another one of the same question; with the difference x of their
features the relevant one wins with probability σ(x · θ), θ ≥ 0. Each question counts by its weight,
however many pairs it has, and each parameter has a half-normal prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from scipy.special import expit, log_expit

from srrag.algo.betr import GRADES
from srrag.algo.classification import FOLDS, question_fold
from srrag.algo.fusion import min_max
from srrag.core.hits import best_places
from srrag.core.spec import content_id

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FeaturePairs:
    """Pairs as rows of feature differences."""

    x: Floats
    """Features of the relevant candidate minus those of the other, (pairs, parameters)."""
    query: Ints
    """Index of the pair's question, (pairs,)."""
    weight: Floats
    """Total weight of all pairs of a question, (questions,)."""
    precision: Floats
    """Inverse variances of the half-normal priors, (parameters,)."""

    def shares(self) -> Floats:
        """Weight of each pair: its question's weight over the number of its pairs, (pairs,)."""
        counts = np.bincount(self.query, minlength=len(self.weight))
        found: Floats = (self.weight / np.maximum(1, counts))[self.query]
        return found


def fit_weights(pairs: FeaturePairs, max_steps: int = 200) -> Floats:
    """The θ ≥ 0 of the highest posterior, (parameters,), by a projected Newton method.

    The objective is strictly concave, so there is one. Raises ValueError if it does not converge.
    """
    shares, theta = pairs.shares(), np.zeros(pairs.x.shape[1])
    value = _value(theta, pairs, shares)
    for _ in range(max_steps):
        gradient, information = _derivatives(theta, pairs, shares)
        free = (theta > 0) | (gradient > 0)
        move = np.zeros_like(theta)
        move[free] = np.linalg.solve(information[np.ix_(free, free)], gradient[free])
        gain, size = 0.5 * float(gradient @ move), 1.0
        tiny = 1e-13 * max(1.0, abs(value))
        if gain <= tiny:
            return theta
        while True:
            there = np.maximum(theta + size * move, 0.0)
            found = _value(there, pairs, shares)
            if found >= value + 1e-4 * float(gradient @ (there - theta)) - tiny:
                break
            size /= 2
            if size < 1e-12:
                raise ValueError("the fit found no way up; are the features finite?")
        theta, value = there, found
    raise ValueError(f"the fit did not converge in {max_steps} steps")


def weight_draws(theta: Floats, pairs: FeaturePairs, *, num_draws: int, seed: int) -> Floats:
    """Draws around the optimum θ, (draws, parameters), that may be below 0.

    The likelihood averages within each question, so its curvature alone does not give the width:
    the covariance is the sandwich H⁻¹JH⁻¹ with J from whole questions (White 1982), as for BETR.
    The prior's pull is removed to first order; a parameter without information in the pairs has the
    spread of its prior.
    """
    shares = pairs.shares()
    gradient, information = _derivatives(theta, pairs, shares)
    prior = np.diag(pairs.precision)
    lost = shares * expit(-(pairs.x @ theta))
    scores = np.zeros((len(pairs.weight), len(theta)))
    np.add.at(scores, pairs.query, lost[:, None] * pairs.x)
    num = max(len(scores), len(theta) + 1)
    mean = scores.sum(axis=0) / num
    spread = (scores.T @ scores - num * np.outer(mean, mean)) * num / (num - len(theta))
    shrink = np.linalg.solve(information, prior)
    pull = (np.eye(len(theta)) + shrink) @ np.linalg.inv(information)
    rest = shrink @ shrink
    covariance = pull @ spread @ pull.T + rest @ np.diag(1 / pairs.precision) @ rest.T
    centre = theta + np.linalg.solve(information, gradient + pairs.precision * theta)
    values, axes = np.linalg.eigh(covariance)
    noise = np.random.default_rng(seed).standard_normal((num_draws, len(theta)))
    found: Floats = centre + noise @ (axes * np.sqrt(np.maximum(values, 0.0))).T
    return found


def constrained(draws: Floats, theta: Floats, pairs: FeaturePairs) -> Floats:
    """The nearest point with θ ≥ 0 to each draw, in the metric of the curvature at θ."""
    _, information = _derivatives(theta, pairs, pairs.shares())
    root = np.linalg.cholesky(information).T
    return np.stack([nnls(root, root @ draw)[0] for draw in draws])


def weight_intervals(free: Floats, held: Floats, level: float) -> Floats:
    """The interval of each parameter at this level, (parameters, 2).

    Noise alone pushes a weight of 0 above 0 in half of the constrained draws (`held`), so the
    interval is united with that of the `free` draws, cut at 0.
    """
    tails = [(1 - level) / 2, (1 + level) / 2]
    bounds = np.quantile(held, tails, axis=0)
    loose = np.maximum(np.quantile(free, tails, axis=0), 0.0)
    return np.stack([np.minimum(bounds[0], loose[0]), np.maximum(bounds[1], loose[1])], axis=1)


def _value(theta: Floats, pairs: FeaturePairs, shares: Floats) -> float:
    prior = 0.5 * float(pairs.precision @ theta**2)
    return float(shares @ log_expit(pairs.x @ theta)) - prior


def _derivatives(theta: Floats, pairs: FeaturePairs, shares: Floats) -> tuple[Floats, Floats]:
    """Gradient (parameters,) and curvature (parameters, parameters), which is positive definite."""
    lost = expit(-(pairs.x @ theta))
    gradient = pairs.x.T @ (shares * lost) - pairs.precision * theta
    curve = shares * lost * (1 - lost)
    return gradient, (pairs.x.T * curve) @ pairs.x + np.diag(pairs.precision)


Bools = npt.NDArray[np.bool_]

_PASSES = 2
"""Number of passes; each takes the best window of each document by the previous weights."""


@dataclass(frozen=True, kw_only=True)
class FeatureSettings:
    """Settings of the fit: pairs as in BETR's Algorithm 1, and the scale of the priors.

    A weight times the standard deviation of its feature over the pairs is half-normal with the
    scale `tau_w`, and each step between grades with `tau`.
    """

    negatives: int = 20
    depth: int = 100
    tau_w: float = 10.0
    tau: float = 1.0
    document: float = 1.0
    level: float = 0.9
    draws: int = 2000
    seed: int = 42


@dataclass(frozen=True)
class AskedCandidates:
    """A question's candidates: features (n, f), documents, rank of the grade, and relevance."""

    query_id: str
    text: str
    x: Floats
    documents: Ints
    grades: Ints
    relevant: Bools

    @property
    def fold(self) -> int:
        """The fold: the same question in two sets has one."""
        return question_fold(self.text)

    def joined(self, score: Floats, document: float) -> Floats:
        """Features plus `document` times those of the document's best window, by `score`."""
        alone = np.zeros(len(self.x), np.int64)
        return self.x + document * self.x[best_places(score, alone, self.documents)]


@dataclass(frozen=True)
class WeighedFeatures:
    """What was fitted: the weight of each feature, and the biases of the grades A to E."""

    weights: Floats
    u: Floats

    def scores(self, row: AskedCandidates, document: float) -> Floats:
        """The score r of each candidate of a question."""
        joined = row.joined(row.x @ self.weights, document)
        found: Floats = joined @ self.weights + self.u[row.grades]
        return found


def fit_features(
    sets: Sequence[Sequence[AskedCandidates]], settings: FeatureSettings
) -> tuple[WeighedFeatures, FeaturePairs, Floats]:
    """Fit to several sets, which weigh the same; also returns the last pairs and θ.

    θ holds the weights, then the steps from grade to grade. Raises ValueError if no question has
    both a relevant candidate and another one.
    """
    size = len(sets[0][0].x[0])
    weights: Floats | None = None
    for _ in range(_PASSES + 1):
        pairs = feature_pairs(sets, weights, settings)
        theta = fit_weights(pairs)
        weights = theta[:size]
    steps = np.concatenate([[0.0], np.cumsum(theta[size:])])
    return WeighedFeatures(theta[:size], 0.0 - steps), pairs, theta


def feature_pairs(
    sets: Sequence[Sequence[AskedCandidates]], weights: Floats | None, settings: FeatureSettings
) -> FeaturePairs:
    """Sample up to K others for each relevant candidate among the best `depth` of a question.

    The best are those by the mean of the stretched features. The sample depends only on the
    question and the seed. Without weights, documents do not count yet.
    """
    parts: list[Floats] = []
    query: list[int] = []
    weight: list[float] = []
    mean = sum(map(len, sets)) / len(sets)
    for rows in sets:
        for row in rows:
            differences = _differences(row, weights, settings)
            if len(differences):
                parts.append(differences)
                query += [len(weight)] * len(differences)
                weight.append(mean / len(rows))
    if not parts:
        raise ValueError("no question has both a relevant window and another one")
    x = np.concatenate(parts)
    num_features = x.shape[1] - len(GRADES) + 1
    deviation = np.maximum(x[:, :num_features].std(axis=0), 1e-9)
    scale = np.concatenate([settings.tau_w / deviation, np.full(len(GRADES) - 1, settings.tau)])
    return FeaturePairs(x, np.array(query), np.array(weight), 1 / scale**2)


def _differences(row: AskedCandidates, weights: Floats | None, settings: FeatureSettings) -> Floats:
    """The rows of a question's pairs: differences of features, then of the steps of grades."""
    alone = np.zeros(len(row.x), np.int64)
    first = sum(min_max(column, alone) for column in row.x.T)
    best = np.argsort(-first, kind="stable")[: settings.depth]
    x = row.x if weights is None else row.joined(row.x @ weights, settings.document)
    below = -(row.grades[:, None] > np.arange(len(GRADES) - 1)[None, :]).astype(np.float64)
    whole = np.concatenate([x, below], axis=1)
    relevant, others = best[row.relevant[best]], best[~row.relevant[best]]
    draw = np.random.default_rng([settings.seed, int(content_id(row.query_id)[:15], 16)])
    size = min(settings.negatives, len(others))
    found = [whole[each] - whole[draw.choice(others, size, replace=False)] for each in relevant]
    return np.concatenate([np.zeros((0, whole.shape[1])), *found])


def fold_fits(
    sets: Sequence[Sequence[AskedCandidates]], settings: FeatureSettings
) -> list[WeighedFeatures]:
    """For each fold the fit to all others; raises ValueError if a set has no other question."""
    fits = []
    for fold in range(FOLDS):
        kept = [[row for row in rows if row.fold != fold] for rows in sets]
        if not all(kept):
            raise ValueError(f"too few questions: without fold {fold} of {FOLDS} a set is empty")
        fits.append(fit_features(kept, settings)[0])
    return fits


def cross_fitted(
    sets: Sequence[Sequence[AskedCandidates]],
    fits: Sequence[WeighedFeatures],
    settings: FeatureSettings,
) -> list[list[Floats]]:
    """The scores of every question's candidates by the fit without its fold, set by set."""
    return [[fits[row.fold].scores(row, settings.document) for row in rows] for rows in sets]


def stated_folds(names: Sequence[str], fits: Sequence[WeighedFeatures]) -> list[dict[str, Any]]:
    """The fits of the folds as JSON: the weights and biases alone."""
    return [
        {
            "features": {n: round(float(w), 6) for n, w in zip(names, fit.weights, strict=True)},
            "u": {grade: round(float(u), 6) + 0.0 for grade, u in zip(GRADES, fit.u, strict=True)},
        }
        for fit in fits
    ]


def stated_fit(
    names: Sequence[str], sets: Sequence[Sequence[AskedCandidates]], settings: FeatureSettings
) -> dict[str, Any]:
    """The fit to all questions as JSON: weights and biases with their intervals.

    A feature, or a grade, is `worth` something if its interval excludes 0.
    """
    fit, pairs, theta = fit_features(sets, settings)
    free = weight_draws(theta, pairs, num_draws=settings.draws, seed=settings.seed)
    held = constrained(free, theta, pairs)
    size = len(names)
    bounds = weight_intervals(free[:, :size], held[:, :size], settings.level)
    loose, tight = (np.cumsum(each[:, size:], axis=1) for each in (free, held))
    falls = weight_intervals(loose, tight, settings.level)
    found = {
        name: _stated(weight, low, high, bool(low > 0))
        for name, weight, (low, high) in zip(names, fit.weights, bounds, strict=True)
    }
    grades = {GRADES[0]: _stated(0.0, 0.0, 0.0, False)}
    for grade, value, (low, high) in zip(GRADES[1:], fit.u[1:], falls, strict=True):
        grades[grade] = _stated(value, -high, -low, bool(low > 0))
    return {"features": found, "u": grades, "pairs": len(pairs.x), "questions": len(pairs.weight)}


def _stated(value: float, low: float, high: float, worth: bool) -> dict[str, Any]:
    figures = {"value": value, "low": low, "high": high}
    # Adding 0.0 turns -0.0 into 0.0.
    return {key: round(float(each), 6) + 0.0 for key, each in figures.items()} | {"worth": worth}
