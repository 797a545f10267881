"""Posterior draws and intervals of BETR's parameters under δ ≥ 0.

The likelihood averages within each query, so it is not a probability of the data, and its curvature
alone (Laplace) gives far too narrow intervals. The variation between queries gives the right width:
the sandwich covariance H⁻¹JH⁻¹ with J from the scores of whole queries (White 1982; clustered by
query).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from srrag.algo.betr import (
    DESIGN,
    NUM_GRADES,
    NUM_PARAMETERS,
    Floats,
    Objective,
    Pairs,
    biases,
    log_likelihood,
)

_BLOCK = 1 << 18
_SUBSETS = [np.array([True, *free]) for free in itertools.product([True, False], repeat=4)]


@dataclass(frozen=True)
class Draws:
    """Draws of (α, δ): `free` may violate δ ≥ 0, `theta` are the same draws projected onto it."""

    theta: Floats
    free: Floats


def query_scores(theta: Floats, pairs: Pairs) -> Floats:
    """Gradient of each query's mean log-likelihood at θ, (query indices, 5)."""
    size = len(pairs.weight)
    scores = np.zeros((size, NUM_PARAMETERS))
    a, offset = np.exp(theta[0]), DESIGN @ theta[1:]
    for start in range(0, pairs.num_pairs, _BLOCK):
        rows = slice(start, start + _BLOCK)
        delta_s, cell, query = pairs.delta_s[rows], pairs.cell[rows], pairs.query[rows]
        lost = pairs.weight[query] * expit(-(a * delta_s + offset[cell]))
        scores[:, 0] += np.bincount(query, lost * a * delta_s, minlength=size)
        for place, column in enumerate(DESIGN.T, start=1):
            scores[:, place] += np.bincount(query, lost * column[cell], minlength=size)
    return scores


def draw(theta: Floats, pairs: Pairs, objective: Objective, *, num_draws: int, seed: int) -> Draws:
    """Draw parameters around the optimum θ of `posterior`.

    The centre is θ moved by one Newton step of the likelihood alone, which removes the prior's pull
    to first order. With M = (1 + H⁻¹P)H⁻¹ and B = (H⁻¹P)², the covariance is MJMᵀ + BP⁻¹Bᵀ: the
    sandwich where the pairs carry information, and the prior where they carry none (a grade that
    never occurs). A draw with a negative δ moves to the nearest θ with δ ≥ 0 in the metric H, as
    the estimate itself would (Andrews 2000).
    """
    prior = np.diag(objective.precision)
    _, gradient, _ = log_likelihood(theta, pairs)
    information = _information(theta, pairs) + prior
    scores = query_scores(theta, pairs)
    num = max(objective.num_queries, NUM_PARAMETERS + 1)
    mean = scores.sum(axis=0) / num
    spread = (scores.T @ scores - num * np.outer(mean, mean)) * num / (num - NUM_PARAMETERS)
    shrink = np.linalg.solve(information, prior)
    pull = (np.eye(NUM_PARAMETERS) + shrink) @ np.linalg.inv(information)
    rest = shrink @ shrink
    covariance = pull @ spread @ pull.T + rest @ np.diag(1 / objective.precision) @ rest.T
    centre = theta + np.linalg.solve(information, gradient)
    values, axes = np.linalg.eigh(covariance)
    noise = np.random.default_rng(seed).standard_normal((num_draws, NUM_PARAMETERS))
    free = centre + noise @ (axes * np.sqrt(np.maximum(values, 0.0))).T
    return Draws(nearest(free, information), free)


def _information(theta: Floats, pairs: Pairs) -> Floats:
    """Curvature of the likelihood in α and δ without the term of its slope, so it is never < 0."""
    _, gradient, hessian = log_likelihood(theta, pairs)
    information = -hessian
    information[0, 0] += gradient[0]
    return information


def nearest(points: Floats, metric: Floats) -> Floats:
    """For each point (n, 5) the nearest one with δ ≥ 0 by (x − y)ᵀ metric (x − y).

    Tries each of the 16 sets of δ that may be 0. The best one that keeps the others ≥ 0 is the
    solution, because the problem is convex.
    """
    best = np.full(len(points), np.inf)
    found = np.empty_like(points)
    for free in _SUBSETS:
        there = np.zeros_like(points)
        back = np.linalg.solve(metric[np.ix_(free, free)], metric[np.ix_(free, ~free)])
        there[:, free] = points[:, free] + points[:, ~free] @ back.T
        off = points - there
        distance = np.einsum("ni,ij,nj->n", off, metric, off)
        better = (distance < best) & (there[:, 1:] >= -1e-12).all(axis=1)
        best[better], found[better] = distance[better], there[better]
    found[:, 1:] = np.maximum(found[:, 1:], 0.0)
    return found


def intervals(draws: Draws, level: float) -> tuple[tuple[float, float], Floats]:
    """Intervals of a, (low, high), and of each u_t, (5, 2), at this level.

    The percentile interval of the constrained draws alone would miss u = 0 on flat pairs (three
    times in ten for u_E), because noise pushes a sum of non-negative steps below 0. So the result
    is its union with the interval of the free draws, cut at u ≤ 0, which covers the truth in both
    cases.
    """
    tails = [(1 - level) / 2, (1 + level) / 2]
    low_a, high_a = np.exp(np.quantile(draws.theta[:, 0], tails))
    held = np.quantile(biases(draws.theta[:, 1:]), tails, axis=0)
    free = np.minimum(np.quantile(biases(draws.free[:, 1:]), tails, axis=0), 0.0)
    bounds = np.stack([np.minimum(held[0], free[0]), np.maximum(held[1], free[1])], axis=1)
    assert bounds.shape == (NUM_GRADES, 2)
    return (float(low_a), float(high_a)), bounds
