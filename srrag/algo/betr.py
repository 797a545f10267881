"""Bayesian Evidence Tier Reranking: objective, derivatives and solvers (SR-RAG, Eq. 3 to 8).

The parameters are θ = (α, δ_B, δ_C, δ_D, δ_E): the scale a = exp(α) and the steps down from grade
to grade, δ ≥ 0, so that u_A = 0 ≥ u_B ≥ … ≥ u_E. A pair sets a relevant window against another
window of the same question; the relevant one wins with probability σ(aΔs + u_t⁺ − u_t⁻).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Sum = Callable[[Floats], Floats]
"""Sums arrays over the workers of a data-parallel run; the identity with one worker."""
Kind = Literal["paper", "posterior"]

GRADES = "ABCDE"
NUM_GRADES = len(GRADES)
NUM_CELLS = NUM_GRADES**2
NUM_PARAMETERS = NUM_GRADES
_BLOCK = 1 << 18

_RANK = np.arange(NUM_GRADES)
_BELOW = (_RANK[:, None] > np.arange(NUM_GRADES - 1)[None, :]).astype(np.float64)
DESIGN: Floats = (_BELOW[None, :, :] - _BELOW[:, None, :]).reshape(NUM_CELLS, NUM_GRADES - 1)
"""u_t⁺ − u_t⁻ = DESIGN[cell] · δ, with cell = 5 · rank of t⁺ + rank of t⁻."""


@dataclass(frozen=True)
class Pairs:
    """Pairs as columns. A query is here with all of its pairs or not at all."""

    delta_s: Floats
    """s(q, d⁺) − s(q, d⁻), (num_pairs,)."""
    cell: npt.NDArray[np.uint8]
    """5 · rank of the grade of d⁺ + rank of the grade of d⁻, (num_pairs,)."""
    query: npt.NDArray[np.int32]
    """Index of the pair's query, (num_pairs,)."""
    weight: Floats
    """1 / max(1, |P_q|) for each query index, so that every query has the same total weight."""

    def select(self, keep: npt.NDArray[np.bool_]) -> Pairs:
        """The pairs of the queries whose index is True in `keep`; query indices stay the same."""
        rows = keep[self.query]
        return Pairs(self.delta_s[rows], self.cell[rows], self.query[rows], self.weight)

    @property
    def num_pairs(self) -> int:
        """Number of pairs."""
        return len(self.delta_s)

    @property
    def num_queries(self) -> int:
        """Number of queries with at least one pair."""
        return int(np.count_nonzero(np.bincount(self.query, minlength=1)))


def make_pairs(
    delta_s: npt.NDArray[Any],
    rank_pos: npt.NDArray[Any],
    rank_neg: npt.NDArray[Any],
    query: npt.NDArray[Any],
) -> Pairs:
    """Make pairs from score differences, grade ranks (A = 0 … E = 4) and query indices."""
    cell = (np.asarray(rank_pos, np.uint8) * NUM_GRADES + rank_neg).astype(np.uint8)
    counts = np.bincount(query, minlength=1)
    weight = 1.0 / np.maximum(1, counts)
    return Pairs(np.asarray(delta_s, np.float64), cell, np.asarray(query, np.int32), weight)


def biases(delta: Floats) -> Floats:
    """Convert steps δ (…, 4) to biases u by grade (…, 5), u_A = 0 (Eq. 4)."""
    below = -np.cumsum(delta, axis=-1)
    # 0 − x instead of −x, because −x prints as -0.0 for 0.
    return np.concatenate([np.zeros_like(below[..., :1]), 0.0 + below], axis=-1)


@dataclass(frozen=True, kw_only=True)
class Objective:
    """The objective: log-likelihood, averaged within each query, plus log-priors (Eq. 5).

    `paper` is Eq. 8, which divides the likelihood but not the prior by |Q|. `posterior` sums over
    the queries (Eq. 7). `num_queries` is |Q| and includes queries without a pair.
    """

    kind: Kind
    num_queries: int
    tau: float
    sigma_a: float = 5.0

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown kind, or for a scale that is not positive."""
        if self.kind not in ("paper", "posterior"):
            raise ValueError(f"objective {self.kind!r}: one of paper, posterior")
        if not (0 < self.tau < np.inf and 0 < self.sigma_a < np.inf and self.num_queries > 0):
            raise ValueError("tau, sigma_a and num_queries have to be positive")

    @property
    def likelihood_share(self) -> float:
        """Factor of the log-likelihood: 1/|Q| for `paper`, 1 for `posterior`."""
        return 1.0 / self.num_queries if self.kind == "paper" else 1.0

    @property
    def precision(self) -> Floats:
        """Inverse variances of the priors by parameter: 1/σ_a², then 1/τ² four times."""
        return 1.0 / np.array([self.sigma_a] + [self.tau] * (NUM_PARAMETERS - 1)) ** 2

    def log_prior(self, theta: Floats) -> float:
        """Log-prior at θ, up to a constant."""
        return -0.5 * float(self.precision @ theta**2)

    def evaluate(self, theta: Floats, pairs: Pairs, total: Sum) -> tuple[float, Floats, Floats]:
        """Value, gradient (5,) and Hessian (5, 5) at θ; `total` sums over workers."""
        value, gradient, hessian = log_likelihood(theta, pairs, total)
        share, precision = self.likelihood_share, self.precision
        return (
            share * value + self.log_prior(theta),
            share * gradient - precision * theta,
            share * hessian - np.diag(precision),
        )


def log_likelihood(
    theta: Floats, pairs: Pairs, total: Sum | None = None
) -> tuple[float, Floats, Floats]:
    """Σ_q mean over P_q of log σ(aΔs + u_t⁺ − u_t⁻), its gradient (5,) and Hessian (5, 5).

    There are only 25 pairs of grades, so the terms in δ are first summed by cell.
    """
    sums = _cell_sums(theta, pairs)
    value, slope_s, curve_ss, slope, curve, curve_s = np.split(
        sums if total is None else total(sums), np.cumsum([1, 1, 1, NUM_CELLS, NUM_CELLS])
    )
    a = np.exp(theta[0])
    gradient = np.concatenate([a * slope_s, slope @ DESIGN])
    hessian = np.empty((NUM_PARAMETERS, NUM_PARAMETERS))
    hessian[0, 0] = a * slope_s[0] - a * a * curve_ss[0]
    hessian[0, 1:] = hessian[1:, 0] = -a * (curve_s @ DESIGN)
    hessian[1:, 1:] = -DESIGN.T @ (curve[:, None] * DESIGN)
    return float(value[0]), gradient, hessian


def query_losses(theta: Floats, pairs: Pairs) -> Floats:
    """−(mean over P_q of log σ(aΔs + u_t⁺ − u_t⁻)) of each query that has pairs, (queries,)."""
    margin = np.exp(theta[0]) * pairs.delta_s + (DESIGN @ theta[1:])[pairs.cell]
    lost = np.logaddexp(0.0, -margin) * pairs.weight[pairs.query]
    size = len(pairs.weight)
    losses = np.bincount(pairs.query, lost, minlength=size).astype(np.float64)
    return losses[np.bincount(pairs.query, minlength=size) > 0]


def _cell_sums(theta: Floats, pairs: Pairs) -> Floats:
    """Weighted sums over blocks of pairs: log σ, σ(−z)Δs, σσΔs², then σ(−z), σσ, σσΔs by cell."""
    from scipy.special import expit, log_expit  # fitting alone needs it, questions do not

    sums = np.zeros(3 + 3 * NUM_CELLS)
    by_cell = sums[3:].reshape(3, NUM_CELLS)
    offset = DESIGN @ theta[1:]
    a = np.exp(theta[0])
    for start in range(0, pairs.num_pairs, _BLOCK):
        rows = slice(start, start + _BLOCK)
        delta_s, cell = pairs.delta_s[rows], pairs.cell[rows]
        weight = pairs.weight[pairs.query[rows]]
        margin = a * delta_s + offset[cell]
        lost = expit(-margin)
        slope = weight * lost
        curve = slope * (1.0 - lost)
        curve_s = curve * delta_s
        sums[0] += weight @ log_expit(margin)
        sums[1] += slope @ delta_s
        sums[2] += curve_s @ delta_s
        for place, values in enumerate((slope, curve, curve_s)):
            by_cell[place] += np.bincount(cell, values, minlength=NUM_CELLS)
    return sums


Evaluate = Callable[[Floats], tuple[float, Floats, Floats]]


@dataclass(frozen=True)
class Optimum:
    """Result of a solver: parameters, objective value, and a bound on the gain that remains."""

    theta: Floats
    value: float
    gain: float


def solve_exact(evaluate: Evaluate, max_steps: int = 200) -> Optimum:
    """Maximise under δ ≥ 0 by a projected Newton method (Bertsekas 1982).

    The objective is strictly concave in δ, but in α only near a maximum: very small score
    differences give a second maximum at a large α. So the solver climbs every peak of a coarse grid
    over α and returns the highest. Raises ValueError if it does not converge.
    """
    grid = np.arange(-6.0, 11.0, 2.0)
    thetas = [np.concatenate([[alpha], np.zeros(NUM_PARAMETERS - 1)]) for alpha in grid]
    values = np.array([evaluate(theta)[0] for theta in thetas])
    around = np.concatenate([[-np.inf], values, [-np.inf]])
    peaks = np.flatnonzero((values >= around[:-2]) & (values > around[2:]))
    return max((_climb(evaluate, thetas[n], max_steps) for n in peaks), key=lambda o: o.value)


def _climb(evaluate: Evaluate, theta: Floats, max_steps: int) -> Optimum:
    value, gradient, hessian = evaluate(theta)
    for _ in range(max_steps):
        free = (theta > 0) | (gradient > 0)
        free[0] = True
        move = np.zeros_like(theta)
        move[free] = _ascent(gradient[free], hessian[np.ix_(free, free)])
        gain = 0.5 * float(gradient @ move)
        size, tiny = 1.0, 1e-14 * max(1.0, abs(value))
        while True:
            there = project(theta + size * move)
            found = evaluate(there)
            if found[0] >= value + 1e-4 * float(gradient @ (there - theta)) - tiny:
                break
            size /= 2
            if size < 1e-12:
                raise ValueError("the exact solver found no way up; are the scores finite?")
        theta, (value, gradient, hessian) = there, found
        if gain <= tiny:
            return Optimum(theta, value, gain)
    raise ValueError(f"the exact solver did not converge in {max_steps} steps")


def _ascent(gradient: Floats, hessian: Floats) -> Floats:
    """The Newton step with every curvature made negative, so that the step leads uphill."""
    curvature, axes = np.linalg.eigh(hessian)
    step: Floats = axes @ ((axes.T @ gradient) / np.maximum(np.abs(curvature), 1e-12))
    # Where the function is almost flat in α, the step would overflow exp.
    return step * min(1.0, 4.0 / max(1e-300, float(np.abs(step).max())))


def project(theta: Floats) -> Floats:
    """The nearest θ with δ ≥ 0."""
    return np.concatenate([theta[:1], np.maximum(theta[1:], 0.0)])


_SUBSETS = [np.array([True, *free]) for free in itertools.product([True, False], repeat=4)]


@dataclass(frozen=True)
class Draws:
    """Draws of (α, δ): `free` may violate δ ≥ 0, `theta` are the same draws projected onto it."""

    theta: Floats
    free: Floats


def query_scores(theta: Floats, pairs: Pairs) -> Floats:
    """Gradient of each query's mean log-likelihood at θ, (query indices, 5)."""
    from scipy.special import expit

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
