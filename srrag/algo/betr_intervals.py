"""What the pairs say of BETR's parameters, and how surely: draws that respect δ ≥ 0.

The likelihood takes a mean within each query, so it is no probability of the data, and its
curvature alone (Laplace) says far too little. How much the queries differ is what counts: the
sandwich covariance H⁻¹JH⁻¹, J from the scores of whole queries (White 1982; clustered by query).
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
    """Draws of (α, δ): `free` may leave δ ≥ 0, `theta` are the same draws brought back to it."""

    theta: Floats
    free: Floats


def query_scores(theta: Floats, pairs: Pairs) -> Floats:
    """Each query's gradient of its mean log-likelihood at θ, (numbers of queries, 5)."""
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

    The centre is one Newton step of the likelihood alone away from θ, so that the prior's pull is
    taken back to first order, M = (1 + H⁻¹P)H⁻¹ and B = (H⁻¹P)²: the covariance is MJMᵀ + BP⁻¹Bᵀ,
    the sandwich where the pairs say something and the prior where they say nothing (a grade that
    does not occur). Draws with a negative δ go to the nearest θ with δ ≥ 0 in the metric H: what
    the estimate itself would have done (Andrews 2000).
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
    """The likelihood's curvature in α and δ without the term that its own slope adds: never < 0."""
    _, gradient, hessian = log_likelihood(theta, pairs)
    information = -hessian
    information[0, 0] += gradient[0]
    return information


def nearest(points: Floats, metric: Floats) -> Floats:
    """For each point (n, 5) the nearest one with δ ≥ 0 by (x − y)ᵀ metric (x − y).

    Each of the 16 sets of δ that may stand at 0 is tried; the best that keeps the others ≥ 0 is
    the solution, as the problem is convex.
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
    """Intervals of a, and of each u_t as (5, 2), at this level.

    A percentile interval of the constrained draws alone would miss u = 0 on flat pairs (three in
    ten times for u_E): a sum of steps that cannot be negative lies below 0 by noise. So it is
    united with that of the free draws, cut at u ≤ 0, which holds the truth wherever it lies.
    """
    tails = [(1 - level) / 2, (1 + level) / 2]
    low_a, high_a = np.exp(np.quantile(draws.theta[:, 0], tails))
    held = np.quantile(biases(draws.theta[:, 1:]), tails, axis=0)
    free = np.minimum(np.quantile(biases(draws.free[:, 1:]), tails, axis=0), 0.0)
    bounds = np.stack([np.minimum(held[0], free[0]), np.maximum(held[1], free[1])], axis=1)
    assert bounds.shape == (NUM_GRADES, 2)
    return (float(low_a), float(high_a)), bounds
