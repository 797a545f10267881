"""Figures as they are printed."""

from __future__ import annotations

import pytest

from srrag.core.figures import BaselineDifference, Figure
from srrag.lab.report import numbers


@pytest.mark.parametrize(
    ("value", "shown", "with_sign"),
    [
        (0.4567, "0.457", "+0.457"),
        (-0.0125, "−0.013", "−0.013"),
        (-0.0001, "0.000", "0.000"),
        (0.0, "0.000", "0.000"),
        (1.0, "1.000", "+1.000"),
    ],
)
def test_values_have_three_digits_and_a_real_minus(
    value: float, shown: str, with_sign: str
) -> None:
    assert numbers.plain(value) == shown
    assert numbers.signed(value) == with_sign


@pytest.mark.parametrize(
    ("p", "shown"),
    [(None, "–"), (0.0005, "< 0.001"), (0.001, "0.001"), (0.05, "0.050"), (1, "1.000")],
)
def test_p_values(p: float | None, shown: str) -> None:
    assert numbers.p_value(p) == shown


def test_intervals_of_differences_have_signs() -> None:
    assert numbers.interval(Figure(value=0.5, low=0.4, high=0.6)) == "0.400–0.600"
    assert numbers.interval(BaselineDifference(value=0.1, low=-0.1, high=0.3)) == "−0.100 to +0.300"
    assert numbers.interval(Figure(value=0.5)) == ""


def test_costs() -> None:
    assert numbers.tokens(1200, 34) == "1,200 + 34" and numbers.tokens(0, 0) == "0"
    assert numbers.seconds(1.25) == "1.2" and numbers.seconds(1234.5) == "1,234"
    assert [numbers.money(x) for x in (0.0, 0.0123, 12.5)] == ["0.00", "0.0123", "12.50"]
    assert numbers.count(None) == "–" and numbers.count(1600) == "1,600"
