from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.algo.significance import Scale, alpha_interval, krippendorff_alpha

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


@pytest.mark.parametrize(
    ("scale", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_the_worked_example(scale: Scale, alpha: float) -> None:
    assert krippendorff_alpha(BOOK, scale) == pytest.approx(alpha, abs=5e-4)


def test_two_judges_by_hand() -> None:
    """Two of four items differ. Pairs: 1-1 twice, 0-0 twice, 0-1 four times; n = 8, four each.

    Observed 4 / 8, expected 2 · 4 · 4 / (8 · 7): α = 1 - (1/2) / (4/7) = 1/8.
    """
    ratings = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0]])
    assert krippendorff_alpha(ratings) == pytest.approx(1 / 8)


def test_full_agreement_is_one_and_opposition_below_zero() -> None:
    same = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
    scales: tuple[Scale, ...] = ("nominal", "ordinal", "interval")
    for scale in scales:
        assert krippendorff_alpha(same, scale) == 1.0
    assert krippendorff_alpha(np.array([[0.0, 1.0], [1.0, 0.0]])) < 0


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
        krippendorff_alpha(np.array(ratings))


def test_an_unknown_scale() -> None:
    with pytest.raises(ValueError, match="'ratio'"):
        krippendorff_alpha(BOOK, "ratio")  # type: ignore[arg-type]


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
    alpha = krippendorff_alpha(ratings, "interval")
    assert alpha == pytest.approx(1 - observed / expected)
    assert krippendorff_alpha(ratings[::-1], "interval") == pytest.approx(alpha)


def test_the_interval_is_that_of_alphas_of_drawn_items() -> None:
    generator = np.random.default_rng(0)
    ratings = generator.integers(0, 3, size=(2, 40)).astype(float)
    ratings[1] = np.where(generator.random(40) < 0.7, ratings[0], ratings[1])
    value, low, high = alpha_interval(ratings, resamples=2000)
    drawn = [krippendorff_alpha(ratings[:, generator.integers(0, 40, 40)]) for _ in range(2000)]
    assert value == krippendorff_alpha(ratings)
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
