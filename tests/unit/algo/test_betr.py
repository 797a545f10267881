from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize

from srrag.algo.betr import (
    DESIGN,
    Draws,
    Floats,
    Objective,
    Pairs,
    _information,
    biases,
    draw,
    intervals,
    log_likelihood,
    make_pairs,
    nearest,
    project,
    query_losses,
    query_scores,
    solve_exact,
)
from tests.simulated_pairs import TABLE_1, simulate_pairs


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def no_sum(values: Floats) -> Floats:
    return values


def random_pairs(seed: int, num_queries: int = 40, scale: float = 1.0) -> Pairs:
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, 9, num_queries)
    query = np.repeat(np.arange(num_queries), sizes)
    grades = draw.integers(0, 5, (2, len(query)))
    return make_pairs(scale * draw.normal(0.5, 1, len(query)), grades[0], grades[1], query)


TWO = make_pairs(
    np.array([1.0, -0.5, 2.0]), np.array([0, 2, 4]), np.array([1, 2, 0]), np.array([0, 0, 1])
)
"""Query 0: Δs = 1 with A against B, Δs = −.5 with C against C; query 1: Δs = 2 with E against A."""


def test_every_query_weighs_as_much_as_any_other() -> None:
    three = make_pairs(np.zeros(3), np.zeros(3), np.zeros(3), np.array([0, 2, 2]))
    assert three.weight.tolist() == [1.0, 1.0, 0.5] and three.num_queries == 2
    one = make_pairs(np.zeros(1), np.zeros(1), np.zeros(1), np.array([0]))
    assert one.weight.tolist() == [1.0]
    assert make_pairs(*np.zeros((3, 0)), np.zeros(0, int)).num_pairs == 0


THETA = np.array([math.log(2), 0.1, 0.2, 0.3, 0.4])


def test_biases_by_hand() -> None:
    assert biases(THETA[1:]).tolist() == pytest.approx([0, -0.1, -0.3, -0.6, -1.0])
    assert str(biases(np.zeros(4)).tolist()) == "[0.0, 0.0, 0.0, 0.0, 0.0]"


def test_the_design_gives_differences_of_biases() -> None:
    u = biases(THETA[1:])
    assert np.allclose(DESIGN @ THETA[1:], [u[t] - u[s] for t in range(5) for s in range(5)])


def test_the_paper_objective_by_hand() -> None:
    """Eq. 8, with a third query that has no pair, τ = .5 and σ_a = 5."""
    first = (math.log(sigmoid(2 + 0.1)) + math.log(sigmoid(-1))) / 2
    second = math.log(sigmoid(4 - 1.0))
    priors = (0.1**2 + 0.2**2 + 0.3**2 + 0.4**2) / (2 * 0.25) + math.log(2) ** 2 / 50
    paper = Objective(kind="paper", num_queries=3, tau=0.5)
    posterior = Objective(kind="posterior", num_queries=3, tau=0.5)
    value, _, _ = paper.evaluate(THETA, TWO, no_sum)
    assert value == pytest.approx((first + second) / 3 - priors, abs=1e-14)
    value, _, _ = posterior.evaluate(THETA, TWO, no_sum)
    assert value == pytest.approx(first + second - priors, abs=1e-14)


def test_the_losses_of_queries_add_up_to_the_likelihood() -> None:
    first = -(math.log(sigmoid(2 + 0.1)) + math.log(sigmoid(-1))) / 2
    second = -math.log(sigmoid(4 - 1.0))
    assert query_losses(THETA, TWO) == pytest.approx([first, second])
    pairs = random_pairs(3)
    some = pairs.select(np.arange(40) % 4 == 0)
    assert len(query_losses(THETA, some)) == 10
    assert query_losses(THETA, some).sum() == pytest.approx(-log_likelihood(THETA, some)[0])


@pytest.mark.parametrize("kind", ["paper", "posterior"])
def test_derivatives_are_those_of_the_value(kind: str) -> None:
    objective = Objective(kind=kind, num_queries=50, tau=0.7)  # type: ignore[arg-type]
    pairs = random_pairs(1)
    for seed in range(3):
        theta = np.abs(np.random.default_rng(seed).normal(size=5))
        _, _, hessian = objective.evaluate(theta, pairs, no_sum)
        value_of = lambda x: objective.evaluate(x, pairs, no_sum)[0]  # noqa: E731
        gradient_of = lambda x: objective.evaluate(x, pairs, no_sum)[1]  # noqa: E731
        assert check_grad(value_of, gradient_of, theta) < 1e-5
        columns = [
            (gradient_of(theta + step) - gradient_of(theta - step)) / 2e-6
            for step in 1e-6 * np.eye(5)
        ]
        assert np.allclose(hessian, columns, atol=1e-6)


def test_sums_over_shards_are_the_sum() -> None:
    pairs = random_pairs(2)
    even = np.arange(len(pairs.weight)) % 2 == 0
    whole = log_likelihood(THETA, pairs)
    halves = [log_likelihood(THETA, pairs.select(keep)) for keep in (even, ~even)]
    for place in range(3):
        assert np.allclose(whole[place], halves[0][place] + halves[1][place], atol=1e-12)


@pytest.mark.parametrize("kind", ["paper", "posterior"])
@pytest.mark.parametrize("scale", [0.001, 0.03, 1.0, 50.0])
def test_the_exact_solver_is_at_the_optimum(kind: str, scale: float) -> None:
    """No start of another solver finds more, over scales of scores from 0.001 to 50."""
    pairs = random_pairs(3, scale=scale)
    objective = Objective(kind=kind, num_queries=60, tau=1.0)  # type: ignore[arg-type]
    found = solve_exact(lambda theta: objective.evaluate(theta, pairs, no_sum))
    assert found.gain < 1e-10
    assert (found.theta[1:] >= 0).all()

    def down(theta: Floats) -> tuple[float, Floats]:
        value, gradient, _ = objective.evaluate(theta, pairs, no_sum)
        return -value, -gradient

    for alpha in (-3.0, 0.0, 3.0, 7.0):
        other = minimize(
            down, [alpha, 0.5, 0.5, 0.5, 0.5], jac=True, method="L-BFGS-B",
            bounds=[(-20, 20)] + [(0, None)] * 4, options={"ftol": 1e-15, "gtol": 1e-10},
        )  # fmt: skip
        assert found.value >= -other.fun - 1e-8


def test_pairs_that_one_side_always_wins_have_an_optimum() -> None:
    pairs = make_pairs(np.full(20, 0.7), np.zeros(20), np.full(20, 4), np.arange(20))
    objective = Objective(kind="posterior", num_queries=20, tau=1.0)
    found = solve_exact(lambda theta: objective.evaluate(theta, pairs, no_sum))
    _, gradient, _ = objective.evaluate(found.theta, pairs, no_sum)
    assert np.abs(gradient).max() < 1e-6
    assert np.allclose(found.theta[1:], found.theta[1]), "the steps share what A has over E"


def test_projection() -> None:
    assert project(np.array([-1.0, 0.5, -0.2, 0.0, 3.0])).tolist() == [-1, 0.5, 0, 0, 3]


@pytest.mark.parametrize(
    "wrong", [{"tau": 0.0}, {"tau": math.nan}, {"sigma_a": -1.0}, {"kind": "x"}]
)
def test_wrong_settings_are_refused(wrong: dict[str, float]) -> None:
    assert Objective(kind="paper", num_queries=1, tau=0.5, sigma_a=0.5).likelihood_share == 1
    with pytest.raises(ValueError, match=r"positive|paper"):
        Objective(**{"kind": "paper", "num_queries": 1, "tau": 1.0, **wrong})  # type: ignore[arg-type]


SEEDS = 200


def optimum(pairs: Pairs, objective: Objective) -> Floats:
    return solve_exact(lambda theta: objective.evaluate(theta, pairs, lambda x: x)).theta


def covered(u: Floats, num_queries: int, seeds: int = SEEDS) -> Floats:
    """How often 90 % intervals hold the planted a = 1 and u_B … u_E."""
    held = np.zeros(5)
    objective = Objective(kind="posterior", num_queries=num_queries, tau=1.0)
    for seed in range(seeds):
        pairs = simulate_pairs(u, num_queries=num_queries, seed=seed)
        theta = optimum(pairs, objective)
        a, bounds = intervals(draw(theta, pairs, objective, num_draws=500, seed=seed), 0.9)
        held[0] += a[0] <= 1 <= a[1]
        held[1:] += (bounds[1:, 0] <= u[1:] + 1e-12) & (u[1:] - 1e-12 <= bounds[1:, 1])
    return held / seeds


@pytest.mark.slow
def test_intervals_cover_interior_values_as_often_as_they_say() -> None:
    shares = covered(2 * TABLE_1, 300)
    assert (shares >= 0.85).all(), shares
    assert (shares <= 0.95).all(), shares


def test_intervals_hold_no_effect_where_there_is_none() -> None:
    shares = covered(0 * TABLE_1, 200)
    assert (shares >= 0.85).all(), shares


def test_scores_by_query_are_the_gradient() -> None:
    pairs = simulate_pairs(TABLE_1, num_queries=30)
    theta = np.array([0.2, 0.1, 0.0, 0.3, 0.2])
    assert np.allclose(query_scores(theta, pairs).sum(axis=0), log_likelihood(theta, pairs)[1])


def test_inverted_pairs_leave_nothing_below_zero() -> None:
    objective = Objective(kind="posterior", num_queries=800, tau=1.0)
    pairs = simulate_pairs(-TABLE_1, num_queries=800)
    draws = draw(optimum(pairs, objective), pairs, objective, num_draws=1000, seed=0)
    _, bounds = intervals(draws, 0.9)
    assert (bounds[:, 1] == 0).all()
    assert (bounds[:, 0] > -0.05).all()


def test_a_grade_that_does_not_occur_is_as_uncertain_as_its_prior() -> None:
    """Without a window of grade E, δ_E is half-normal with τ: 90 % of it lies below 1.64 τ."""
    u = TABLE_1.copy()
    pairs = simulate_pairs(u, num_queries=400)
    keep = (pairs.cell // 5 != 4) & (pairs.cell % 5 != 4)
    seen = Pairs(pairs.delta_s[keep], pairs.cell[keep], pairs.query[keep], pairs.weight)
    objective = Objective(kind="posterior", num_queries=400, tau=0.5)
    draws = draw(optimum(seen, objective), seen, objective, num_draws=4000, seed=0)
    assert np.std(draws.free[:, 4]) == pytest.approx(0.5, rel=0.1)
    assert (draws.theta[:, 4] >= 0).all()


@pytest.mark.parametrize(("num_queries", "most"), [(400, 0.02), (5, 1.0)])
def test_queries_that_all_say_the_same_leave_only_the_prior_in_doubt(
    num_queries: int, most: float
) -> None:
    """Nothing varies between them; five are as many as the parameters, and still have a width."""
    random = np.random.default_rng(0)
    differences, grades = random.normal(0.5, 1, 40), random.integers(0, 5, (2, 40))
    query = np.repeat(np.arange(num_queries), 40)
    told = (np.tile(each, num_queries) for each in (differences, *grades))
    pairs = make_pairs(*told, query)
    objective = Objective(kind="posterior", num_queries=num_queries, tau=1.0)
    theta = np.array([0.0, 0.1, 0.1, 0.1, 0.1])
    spread = draw(theta, pairs, objective, num_draws=300, seed=0).free.std(axis=0)
    assert (spread > 0).all() and (spread < most).all(), spread


def test_the_nearest_point_is_that_of_a_general_solver() -> None:
    random = np.random.default_rng(0)
    root = random.normal(size=(5, 5))
    metric = root @ root.T + 0.1 * np.eye(5)
    points = random.normal(size=(30, 5))
    found = nearest(points, metric)
    assert (found[:, 1:] >= 0).all()
    for point, ours in zip(points, found, strict=True):

        def distance(x: Floats, point: Floats = point) -> float:
            return float((x - point) @ metric @ (x - point))

        other = minimize(distance, np.abs(point), bounds=[(None, None)] + [(0, None)] * 4)
        assert distance(ours) <= other.fun + 1e-8


def test_a_level_leaves_out_as_much_at_either_end() -> None:
    theta = np.zeros((101, 5))
    theta[:, 0] = np.linspace(0, 1, 101)
    (low, high), _ = intervals(Draws(theta, theta), 0.8)
    assert (low, high) == pytest.approx((np.exp(0.1), np.exp(0.9)))


def test_intervals_by_hand() -> None:
    """Two draws at α = 0 and two at ln 3; δ_B free at −1, 1, 1, 1 and held at 0, 1, 1, 1."""
    free = np.zeros((4, 5))
    free[2:, 0] = np.log(3)
    free[:, 1] = [-1, 1, 1, 1]
    held = np.maximum(free, 0)
    a, u = intervals(Draws(held, free), 1 - 1e-12)
    assert a == pytest.approx((1, 3))
    assert u.tolist() == pytest.approx(np.array([[0, 0]] + [[-1, 0]] * 4))
    assert biases(held[:, 1:]).min() == -1


def test_fewer_queries_than_parameters_leave_one_degree_of_freedom() -> None:
    """As if there were six queries, one more than parameters: seven are narrower."""
    pairs = simulate_pairs(TABLE_1, num_queries=3)
    theta = np.array([0.2, 0.1, 0.1, 0.3, 0.2])

    def drawn(num_queries: int) -> Floats:
        objective = Objective(kind="posterior", num_queries=num_queries, tau=1.0)
        return draw(theta, pairs, objective, num_draws=20, seed=0).free

    assert np.array_equal(drawn(3), drawn(6))
    assert not np.allclose(drawn(3), drawn(7))


def test_the_likelihood_curves_down_everywhere_without_the_slope_of_alpha() -> None:
    """The slope adds to the curvature of α alone, also far from the optimum."""
    pairs = simulate_pairs(TABLE_1, num_queries=30)
    for alpha in (-4.0, 0.0, 4.0):
        theta = np.array([alpha, 0.1, 0.1, 0.3, 0.2])
        _, gradient, hessian = log_likelihood(theta, pairs)
        added = _information(theta, pairs) + hessian
        assert added[0, 0] == pytest.approx(gradient[0])
        assert np.count_nonzero(added) == 1
        assert np.linalg.eigvalsh(_information(theta, pairs)).min() > -1e-9
