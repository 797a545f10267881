"""Pairwise logistic model with weights of at least 0: SR-RAG's Eq. 8 over any features.

A pair sets a relevant candidate against another one of the same question; with the difference x of
their features the relevant one wins with probability σ(x · θ), θ ≥ 0. Each question counts by its
weight, however many pairs it has, and each parameter has a half-normal prior.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from scipy.special import expit, log_expit

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
