"""Significance of the difference of two systems: paired bootstrap, McNemar's test, Holm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from srrag.algo.intervals import Values, resampled_ratios, tails

_TIE = 1e-12


class Difference(NamedTuple):
    """Difference of two systems, its percentile interval, and the two-sided p-value."""

    value: float
    low: float
    high: float
    p: float


def paired_bootstrap(
    ours: Values, theirs: Values, *, resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> Difference:
    """Difference of the means of two systems over the same questions in the same order."""
    ones = np.ones(len(ours))
    pairs = (ours, ones), (theirs, np.ones(len(theirs)))
    return paired_ratios(*pairs, resamples=resamples, level=level, seed=seed)


def paired_ratios(
    ours: tuple[Values, Values],
    theirs: tuple[Values, Values],
    *,
    resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> Difference:
    """Difference of two pooled ratios (parts, wholes) over the same questions.

    The p-value is from the shifted bootstrap (Efron and Tibshirani 1993, chapter 16): the share of
    resamples whose difference is at least as far from the observed one as the observed one is from
    0. Raises ValueError for samples of different
    length.
    """
    if len(ours[0]) != len(theirs[0]):
        raise ValueError(f"{len(ours[0])} and {len(theirs[0])} values cannot be paired")
    if not 0 < level < 1:
        raise ValueError(f"level {level} is outside 0…1")
    drawn = [
        resampled_ratios(parts, wholes, resamples=resamples, seed=seed)
        for parts, wholes in (ours, theirs)
    ]
    value = float(ours[0].sum() / ours[1].sum() - theirs[0].sum() / theirs[1].sum())
    differences = drawn[0] - drawn[1]
    return Difference(value, *tails(differences, level), shifted_p(value, differences))


def shifted_p(value: float, resampled: Values) -> float:
    """The two-sided p-value of a difference by its resamples (n,), moved so that 0 is the truth.

    One is added to both counts, so p is never 0.
    """
    extreme = int((np.abs(resampled - value) >= abs(value) - _TIE).sum())
    return (1 + extreme) / (1 + len(resampled))


def mcnemar_exact(ours: npt.NDArray[np.bool_], theirs: npt.NDArray[np.bool_]) -> float:
    """Two-sided exact p-value of McNemar's test on which questions each system gets right.

    Binomial with p = 1/2 over the questions on which the systems disagree; 1 if there are none.
    Raises ValueError for samples of different length.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} and {len(theirs)} values cannot be paired")
    only_ours, only_theirs = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    if only_ours + only_theirs == 0:
        return 1.0
    return float(binomtest(only_ours, only_ours + only_theirs, 0.5).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for multiple tests (Holm 1979), in the order given.

    The i-th smallest of m is multiplied by m - i + 1; adjusted values never decrease.
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for smaller, place in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - smaller) * p_values[place]))
        adjusted[place] = highest
    return adjusted
