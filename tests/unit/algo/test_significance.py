from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.algo.significance import (
    Scale,
    alpha_interval,
    bootstrap_interval,
    counts_intervals,
    draws,
    holm,
    mcnemar_exact,
    paired_bootstrap,
    paired_ratios,
    quantile_interval,
    ratio_interval,
)


def test_holm_by_hand() -> None:
    """.01 × 4, .02 × 3, .03 × 2, then .04 × 1, which may not fall below .06."""
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_the_p_value_and_bonferroni(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for p, q in zip(p_values, adjusted, strict=True):
        assert p <= q <= min(1.0, p * len(p_values)) + 1e-12
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(adjusted)[order]) >= 0).all()


def test_mcnemar_by_hand() -> None:
    """Of six disagreements one is ours: 2 × (1 + 6) / 64."""
    ours = np.array([1, 0, 0, 0, 0, 0, 1, 0], bool)
    theirs = np.array([0, 1, 1, 1, 1, 1, 1, 0], bool)
    assert mcnemar_exact(ours, theirs) == pytest.approx(14 / 64)
    assert mcnemar_exact(theirs, ours) == pytest.approx(14 / 64)
    assert mcnemar_exact(ours, ours) == 1.0


def test_equal_systems_do_not_differ() -> None:
    values = np.random.default_rng(0).random(20)
    assert paired_bootstrap(values, values, resamples=200) == (0.0, 0.0, 0.0, 1.0)


def test_a_clear_difference_has_the_smallest_p_value() -> None:
    values = np.random.default_rng(0).random(40)
    found = paired_bootstrap(values + 1, values, resamples=999)
    assert found.value == pytest.approx(1)
    assert found.p == pytest.approx(1 / 1000)


def test_the_p_value_is_near_that_of_the_paired_t_test() -> None:
    from scipy.stats import ttest_rel

    generator = np.random.default_rng(5)
    theirs = generator.normal(size=200)
    for shift in (0.02, 0.1, 0.15):
        ours = theirs + generator.normal(shift, 1, size=200)
        found = paired_bootstrap(ours, theirs, resamples=4000)
        assert found.p == pytest.approx(float(ttest_rel(ours, theirs).pvalue), abs=0.03)


def test_the_interval_is_that_of_the_paired_differences() -> None:
    generator = np.random.default_rng(6)
    ours, theirs = generator.random(30), generator.random(30)
    found = paired_bootstrap(ours, theirs, resamples=500, seed=3)
    assert found[:3] == pytest.approx(bootstrap_interval(ours - theirs, resamples=500, seed=3))


def test_pooled_ratios_by_hand() -> None:
    """(1 + 3) / (2 + 4) weighs the question with four items more than (1/2 + 3/4) / 2."""
    parts, wholes = np.array([1.0, 3.0]), np.array([2.0, 4.0])
    value, low, high = ratio_interval(parts, wholes, resamples=2000, level=0.8)
    assert value == pytest.approx(4 / 6)
    assert (low, high) == pytest.approx((0.5, 0.75))
    other = np.array([2.0, 2.0]), wholes
    assert paired_ratios((parts, wholes), other, resamples=50).value == pytest.approx(0.0)


def test_samples_of_two_lengths_cannot_be_paired() -> None:
    with pytest.raises(ValueError, match="3 and 2"):
        paired_bootstrap(np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match="3 and 2"):
        mcnemar_exact(np.zeros(3, bool), np.zeros(2, bool))


@pytest.mark.parametrize("wholes", [[1.0, 0.0], [1.0], [-1.0, 1.0]])
def test_a_ratio_needs_a_whole(wholes: list[float]) -> None:
    with pytest.raises(ValueError, match="whole"):
        ratio_interval(np.array([0.5, 0.5]), np.array(wholes), resamples=10)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20))
def test_a_p_value_lies_above_zero_and_swapping_keeps_it(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = (np.array(values) for values in zip(*pairs, strict=True))
    one = paired_bootstrap(ours, theirs, resamples=200)
    other = paired_bootstrap(theirs, ours, resamples=200)
    assert 0 < one.p <= 1
    assert one.p == pytest.approx(other.p, abs=0.02)
    assert one.value == pytest.approx(-other.value)


@pytest.mark.parametrize("level", [-0.1, 0.0, 1.0, 95.0])
def test_a_level_lies_between_0_and_1(level: float) -> None:
    with pytest.raises(ValueError, match=f"level {level} is outside 0…1"):
        paired_bootstrap(np.arange(3.0), np.ones(3), level=level)


def test_a_ratio_of_more_than_one_is_compared() -> None:
    """(3 + 5) / (1 + 1) = 4 against (1 + 1) / (1 + 3) = .5; resamples have 3 … 5 and 1/3 … 1."""
    ours = np.array([3.0, 5.0]), np.array([1.0, 1.0])
    theirs = np.array([1.0, 1.0]), np.array([1.0, 3.0])
    found = paired_ratios(ours, theirs, resamples=400, level=0.99)
    assert found.value == pytest.approx(3.5)
    assert (found.low, found.high) == pytest.approx((2.0, 5 - 1 / 3))
    assert found.p == pytest.approx(1 / 401)


def test_a_resample_as_far_off_as_the_difference_counts() -> None:
    """Of (0, 2) and (0, 0) the resamples differ by 0, 1 and 2; two of four lie 1 from 1."""
    found = paired_bootstrap(np.array([0.0, 2.0]), np.zeros(2), resamples=2000)
    assert found.value == 1.0
    assert found.p == pytest.approx(0.5, abs=0.05)


def test_mcnemar_with_disagreements_on_one_side_or_balanced() -> None:
    ours, theirs = np.array([1, 1, 1, 0], bool), np.zeros(4, bool)
    assert mcnemar_exact(ours, theirs) == pytest.approx(2 / 8)
    assert mcnemar_exact(np.array([1, 0], bool), np.array([0, 1], bool)) == 1.0
    assert mcnemar_exact(np.array([1, 1, 0, 0], bool), ~np.array([1, 1, 0, 0], bool)) == 1.0


GAP = np.nan
# Krippendorff's worked example: four observers, twelve units, gaps.
BOOK = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, GAP, GAP, GAP],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, GAP, 3],
        [GAP, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, GAP],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, GAP],
    ]
)


def alpha(ratings: np.ndarray, scale: Scale = "nominal") -> float:
    return alpha_interval(ratings, scale, resamples=200)[0]


@pytest.mark.parametrize(
    ("scale", "value"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_the_worked_example(scale: Scale, value: float) -> None:
    assert alpha(BOOK, scale) == pytest.approx(value, abs=5e-4)


def test_two_judges_by_hand() -> None:
    """Two of four items differ. Pairs: 1-1 twice, 0-0 twice, 0-1 four times; n = 8, four each.

    Observed 4 / 8, expected 2 · 4 · 4 / (8 · 7): α = 1 - (1/2) / (4/7) = 1/8.
    """
    ratings = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0]])
    assert alpha(ratings) == pytest.approx(1 / 8)


def test_full_agreement_is_one_and_opposition_below_zero() -> None:
    same = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
    scales: tuple[Scale, ...] = ("nominal", "ordinal", "interval")
    for scale in scales:
        assert alpha(same, scale) == 1.0
    assert alpha(np.array([[0.0, 1.0], [1.0, 0.0]])) < 0


@pytest.mark.parametrize(
    ("ratings", "reason"),
    [
        ([[1.0, 1.0], [1.0, 1.0]], "all ratings are equal"),
        ([[1.0, GAP], [GAP, 2.0]], "no item was rated twice"),
        ([[1.0, 2.0]], "no item was rated twice"),
    ],
)
def test_no_value_is_said_not_nan(ratings: list[list[float]], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        alpha(np.array(ratings))


def test_an_unknown_scale() -> None:
    with pytest.raises(ValueError, match="'ratio'"):
        alpha(BOOK, "ratio")  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=12))
def test_against_the_definition_pair_by_pair(pairs: list[tuple[int, int]]) -> None:
    """1 - mean squared difference within items / that of any two ratings."""
    ratings = np.array(pairs, float).T
    values = ratings.ravel()
    if len(set(values)) == 1:
        return
    observed = np.mean((ratings[0] - ratings[1]) ** 2)
    apart = (values[:, None] - values[None, :]) ** 2
    expected = apart.sum() / (len(values) * (len(values) - 1))
    value = alpha(ratings, "interval")
    assert value == pytest.approx(1 - observed / expected)
    assert alpha(ratings[::-1], "interval") == pytest.approx(value)


def test_the_interval_is_that_of_alphas_of_drawn_items() -> None:
    generator = np.random.default_rng(0)
    ratings = generator.integers(0, 3, size=(2, 40)).astype(float)
    ratings[1] = np.where(generator.random(40) < 0.7, ratings[0], ratings[1])
    value, low, high = alpha_interval(ratings, resamples=2000)
    draws_of_40 = (ratings[:, generator.integers(0, 40, 40)] for _ in range(2000))
    drawn = [alpha_interval(each, resamples=1)[0] for each in draws_of_40]
    assert value == alpha(ratings)
    assert (low, high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.03)


def test_draws_without_an_alpha_are_left_out() -> None:
    ratings = np.array([[0.0, 1.0], [0.0, 1.0]])
    assert alpha_interval(ratings, resamples=100) == (1.0, 1.0, 1.0)
    with np.errstate(all="raise"):
        alpha_interval(np.array([[0.0, 1.0, 1.0], [0.0, 1.0, 0.0]]), resamples=300)


def test_items_of_a_group_are_drawn_together() -> None:
    """Each item thrice, or once in a group of its own three: the same draws; one that was rated
    once belongs to no draw."""
    generator = np.random.default_rng(4)
    ratings = generator.integers(0, 3, size=(2, 12)).astype(float)
    thrice = np.repeat(ratings, 3, axis=1)
    groups = [f"q{n // 3:02d}" for n in range(36)]
    found = alpha_interval(thrice, groups=groups, resamples=300)
    apart = alpha_interval(thrice, groups=[str(n) for n in range(36)], resamples=300)
    assert found[2] - found[1] > 1.3 * (apart[2] - apart[1])
    odd = np.concatenate([thrice, np.array([[1.0], [np.nan]])], axis=1)
    assert alpha_interval(odd, groups=[*groups, "alone"], resamples=300) == found


def test_a_sample_of_equal_values_has_no_width() -> None:
    assert bootstrap_interval(np.full(7, 0.25), resamples=100) == (0.25, 0.25, 0.25)
    assert bootstrap_interval(np.array([3.0]), resamples=100) == (3.0, 3.0, 3.0)
    assert bootstrap_interval(np.full(7, 0.25), resamples=1) == (0.25, 0.25, 0.25)
    one = np.array([1.0, 2.0, 3.0]), np.zeros(3, int)
    assert quantile_interval(*one, 0.5) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize("resamples", [1, 300])
def test_as_many_are_drawn_as_are_asked_for(resamples: int) -> None:
    found = np.concatenate(list(draws(3, resamples=resamples, seed=0)))
    assert found.shape == (resamples, 3) and (found.sum(axis=1) == 3).all()


def test_the_width_is_that_of_the_normal_interval() -> None:
    """For 400 draws of variance 1: mean ± 1.96 / 20."""
    values = np.random.default_rng(1).normal(size=400)
    values = (values - values.mean()) / values.std() + 5
    mean, low, high = bootstrap_interval(values, resamples=4000)
    assert mean == pytest.approx(5)
    assert low == pytest.approx(5 - 1.96 / 20, abs=0.01)
    assert high == pytest.approx(5 + 1.96 / 20, abs=0.01)


def test_two_values_by_hand() -> None:
    """Of 0 and 1, a quarter of the resamples are 0 and 0, a quarter 1 and 1, the rest mixed."""
    two = np.array([0.0, 1.0])
    assert bootstrap_interval(two, level=0.8) == (0.5, 0.0, 1.0)
    assert bootstrap_interval(two, level=0.4) == (0.5, 0.5, 0.5)


def test_a_higher_level_is_wider() -> None:
    values = np.random.default_rng(2).random(50)
    _, low, high = bootstrap_interval(values, resamples=2000, level=0.8)
    _, lower, higher = bootstrap_interval(values, resamples=2000, level=0.99)
    assert lower < low < high < higher


def test_the_seed_decides() -> None:
    values = np.random.default_rng(3).random(30)
    one = bootstrap_interval(values, resamples=300, seed=1)
    assert one == bootstrap_interval(values, resamples=300, seed=1)
    assert one[1:] != bootstrap_interval(values, resamples=300, seed=2)[1:]
    assert one[0] == bootstrap_interval(values, resamples=300, seed=2)[0]


def test_blocks_do_not_show() -> None:
    """257 resamples are the first 256 and one more: the interval moves little."""
    values = np.random.default_rng(4).random(30)
    _, low, high = bootstrap_interval(values, resamples=256)
    _, low_more, high_more = bootstrap_interval(values, resamples=257)
    assert (low_more, high_more) == pytest.approx((low, high), abs=0.02)


@pytest.mark.parametrize("values", [[], [0.1, np.nan], [np.inf, 0.0], [-np.inf]])
def test_values_without_a_mean(values: list[float]) -> None:
    with pytest.raises(ValueError, match="at least one value, all of them finite"):
        bootstrap_interval(np.array(values))


@pytest.mark.parametrize(
    "settings_",
    [
        {"level": 1.5},
        pytest.param({"level": -0.5}),
        pytest.param({"resamples": 0}),
    ],
)
def test_settings_without_an_interval(settings_: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        bootstrap_interval(np.array([0.0, 1.0]), **{"resamples": 10, **settings_})


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=40), st.integers(0, 2**32))
def test_the_mean_lies_inside_and_the_interval_within_the_values(
    sample: list[float], seed: int
) -> None:
    values = np.array(sample)
    mean, low, high = bootstrap_interval(values, resamples=400, seed=seed)
    slack = 1e-9
    assert mean == pytest.approx(values.mean())
    assert low - slack <= mean <= high + slack
    assert values.min() - slack <= low
    assert high <= values.max() + slack


def test_statistics_of_summed_counts_are_those_of_ratios() -> None:
    draw = np.random.default_rng(0)
    wholes = draw.integers(1, 9, 60).astype(np.float64)
    counts = np.stack([draw.binomial(9, 0.3, 60).astype(np.float64), wholes], axis=1)
    found = counts_intervals(counts, lambda sums: {"ratio": sums[:, 0] / sums[:, 1]}, seed=3)
    expected = ratio_interval(counts[:, 0], wholes, seed=4)
    assert found["ratio"][0] == pytest.approx(expected[0])
    assert found["ratio"] == pytest.approx(expected, abs=0.02), "but for the draws"
    with pytest.raises(ValueError, match="at least one unit"):
        counts_intervals(counts[:0], lambda sums: {})


def test_a_quantile_draws_groups() -> None:
    """One group of many values and one of few: drawn alone, either sets the quantile."""
    values, groups = np.array([1.0] * 9 + [5.0]), np.array([0] * 9 + [1])
    assert quantile_interval(values, groups, 0.5) == (1.0, 1.0, 5.0)
    median = quantile_interval(np.arange(101.0), np.arange(101), 0.5)
    assert median[0] == 50.0
    assert 35 < median[1] < 45 and 55 < median[2] < 65
    with pytest.raises(ValueError, match="at least one value"):
        quantile_interval(values[:0], groups[:0], 0.5)
