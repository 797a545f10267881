from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from srrag.algo.classification import FOLDS
from srrag.lab.train.betr.features import (
    AskedCandidates,
    FeaturePairs,
    FeatureSettings,
    constrained,
    cross_fitted,
    fit_features,
    fit_weights,
    fold_fits,
    stated_fit,
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


SETTINGS = FeatureSettings(draws=200, document=0.0)


def questions(size: int, weights: list[float], seed: int = 0) -> list[AskedCandidates]:
    """Questions with 12 candidates of 4 documents, relevant by chance as the weights say."""
    draw = np.random.default_rng(seed)
    found = []
    for n in range(size):
        x = draw.normal(size=(12, len(weights)))
        relevant = draw.random(12) < expit(x @ weights - 2)
        documents, grades = draw.integers(0, 4, 12), draw.integers(0, 5, 12)
        found.append(
            AskedCandidates(f"{seed}-{n}", f"q {seed} {n}", x, documents, grades, relevant)
        )
    return found


def test_the_weights_that_decided_come_out() -> None:
    fit, _, theta = fit_features([questions(400, [2.0, 1.0, 0.0])], SETTINGS)
    assert fit.weights == pytest.approx([2.0, 1.0, 0.0], abs=0.3)
    assert fit.u[0] == 0 and (np.diff(fit.u) <= 0).all() and fit.u[-1] > -0.3
    assert len(theta) == 3 + 4


def test_a_set_weighs_as_much_as_another() -> None:
    """A hundred questions in which the first feature decides, a thousand in which the second."""
    few, many = questions(100, [2.0, 0.0], 1), questions(1000, [0.0, 2.0], 2)
    fit, *_ = fit_features([few, many], SETTINGS)
    assert fit.weights[0] == pytest.approx(fit.weights[1], rel=0.3)


def test_what_is_worth_nothing_is_said() -> None:
    told = stated_fit(("good", "useless"), [questions(200, [2.0, 0.0], 3)], SETTINGS)
    good, useless = told["features"]["good"], told["features"]["useless"]
    assert good["worth"] and good["low"] <= good["value"] <= good["high"]
    assert not useless["worth"] and useless["low"] == 0.0
    assert list(told["u"]) == list("ABCDE") and told["u"]["A"]["value"] == 0.0
    assert told["u"]["E"]["low"] <= told["u"]["E"]["value"] <= told["u"]["E"]["high"] <= 0.0
    again = stated_fit(("good", "useless"), [questions(200, [2.0, 0.0], 3)], SETTINGS)
    assert told == again


def test_no_question_is_ranked_by_weights_that_saw_it() -> None:
    """A question's own labels, turned round, leave its cross-fitted scores as they were."""
    rows = questions(60, [2.0, 0.0], 4)
    assert {row.fold for row in rows} == set(range(FOLDS))
    (first,) = cross_fitted([rows], fold_fits([rows], SETTINGS), SETTINGS)
    one = rows[7]
    turned = replace(one, relevant=~one.relevant)
    changed = [[*rows[:7], turned, *rows[8:]]]
    (second,) = cross_fitted(changed, fold_fits(changed, SETTINGS), SETTINGS)
    assert second[7].tolist() == first[7].tolist()
    others = [n for n, row in enumerate(rows) if row.fold != one.fold]
    assert any(second[n].tolist() != first[n].tolist() for n in others)


def test_a_question_of_two_sets_has_one_fold() -> None:
    one, other = (
        AskedCandidates(text, text, np.zeros((0, 1)), np.zeros(0), np.zeros(0), np.zeros(0, bool))
        for text in ("Is  rest good?", "is rest good")
    )
    assert one.fold == other.fold


def test_nothing_to_fit_to() -> None:
    rows = [replace(row, relevant=row.relevant & False) for row in questions(20, [1.0], 5)]
    with pytest.raises(ValueError, match="no question has both"):
        fit_features([rows], SETTINGS)
