from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from srrag.algo.pairwise import (
    FeaturePairs,
    constrained,
    fit_weights,
    weight_draws,
    weight_intervals,
)

WEAK = 1e-6


def simulated(theta: list[float], questions: int, seed: int) -> FeaturePairs:
    """Eight pairs a question that were decided by θ."""
    draw = np.random.default_rng(seed)
    query = np.repeat(np.arange(questions), 8)
    x = draw.normal(size=(len(query), len(theta)))
    x *= np.where(draw.random(len(query)) < expit(x @ theta), 1, -1)[:, None]
    weak = np.full(len(theta), WEAK)
    return FeaturePairs(x, query, np.ones(questions), weak)


def test_one_pair_by_hand() -> None:
    """max log σ(2θ) − θ²/2: 2σ(−2θ) = θ at θ = 0.5213"""
    pairs = FeaturePairs(np.array([[2.0]]), np.array([0]), np.ones(1), np.ones(1))
    (theta,) = fit_weights(pairs)
    assert theta == pytest.approx(2 * expit(-2 * theta), abs=1e-6)


def test_a_question_counts_by_its_weight() -> None:
    x = np.array([[1.0], [1.0], [-1.0]])
    pairs = FeaturePairs(x, np.array([0, 0, 1]), np.array([3.0, 1.0]), np.full(1, WEAK))
    assert fit_weights(pairs)[0] == pytest.approx(np.log(3), abs=1e-4), "σ(θ) = 3/4"


def test_what_was_planted_comes_out() -> None:
    theta = fit_weights(simulated([2.0, 0.5, 0.0], 4000, seed=1))
    assert theta == pytest.approx([2.0, 0.5, 0.0], abs=0.1)


def test_a_harmful_feature_weighs_nothing() -> None:
    pairs = simulated([1.0, -1.0], 500, seed=2)
    theta = fit_weights(pairs)
    assert theta[1] == 0.0
    free = weight_draws(theta, pairs, num_draws=200, seed=0)
    bounds = weight_intervals(free, constrained(free, theta, pairs), 0.9)
    assert bounds[1].tolist() == [0.0, 0.0]
    assert bounds[0, 0] > 0.5


def test_intervals_hold_the_truth() -> None:
    """Of 60 simulations, 90 % intervals of a weight of 1 and of one of 0."""
    held = np.zeros(2)
    for seed in range(60):
        pairs = simulated([1.0, 0.0], 60, seed)
        theta = fit_weights(pairs)
        free = weight_draws(theta, pairs, num_draws=200, seed=seed)
        bounds = weight_intervals(free, constrained(free, theta, pairs), 0.9)
        held += (bounds[:, 0] <= [1.0, 0.0]) & (bounds[:, 1] >= [1.0, 0.0])
    assert (held / 60 >= 0.8).all()


def test_questions_that_all_say_the_same_leave_only_the_prior_in_doubt() -> None:
    x = np.tile(np.random.default_rng(0).normal(0.3, 1, (20, 2)), (200, 1))
    alike = FeaturePairs(x, np.repeat(np.arange(200), 20), np.ones(200), np.ones(2))
    theta = np.array([0.2, 0.1])
    assert (weight_draws(theta, alike, num_draws=200, seed=0).std(axis=0) < 0.01).all()
    few = FeaturePairs(x[:40], np.repeat([0, 1], 20), np.ones(2), np.ones(2))
    assert np.isfinite(weight_draws(theta, few, num_draws=20, seed=0)).all()


def test_the_pull_of_the_prior_is_taken_back() -> None:
    strong = simulated([1.0], 400, seed=3)
    strong = FeaturePairs(strong.x, strong.query, strong.weight, np.full(1, 40.0))
    theta = fit_weights(strong)
    free = fit_weights(simulated([1.0], 400, seed=3))
    centre = weight_draws(theta, strong, num_draws=500, seed=0).mean()
    assert abs(centre - free[0]) < 0.5 * abs(theta[0] - free[0])


def test_pairs_that_say_nothing_leave_the_prior() -> None:
    pairs = FeaturePairs(np.zeros((4, 1)), np.arange(4), np.ones(4), np.array([0.25]))
    theta = fit_weights(pairs)
    assert theta.tolist() == [0.0]
    free = weight_draws(theta, pairs, num_draws=4000, seed=0)
    assert free.std() == pytest.approx(2.0, rel=0.05)


def test_fewer_questions_than_weights_leave_one_degree_of_freedom() -> None:
    """Two questions for two weights: counted as three. A third that holds no pair adds nothing."""
    two = simulated([1.0, 0.5], 2, seed=3)
    theta = np.array([0.8, 0.4])
    two_, three, four = (
        weight_draws(
            theta, FeaturePairs(two.x, two.query, np.ones(n), two.precision), num_draws=5, seed=0
        )
        for n in (2, 3, 4)
    )
    assert np.allclose(two_, three)
    assert not np.allclose(three, four)


def test_an_interval_reaches_as_far_as_either_draws() -> None:
    free = np.array([[-1.0, 0.0], [3.0, 2.0]])
    held = np.array([[0.5, 1.0], [2.0, 4.0]])
    assert weight_intervals(free, held, 1.0).tolist() == [[0.0, 3.0], [0.0, 4.0]]
