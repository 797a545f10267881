from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.algo.intervals import (
    bootstrap_interval,
    counts_intervals,
    draws,
    quantile_interval,
    ratio_interval,
)


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
