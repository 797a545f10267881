"""Bootstrap intervals, significance of differences, and agreement of raters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Interval = tuple[float, float, float]
"""A value with the ends of its interval: (value, low, high)."""

_BLOCK = 256


def bootstrap_interval(
    values: Values, *, resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> tuple[float, float, float]:
    """Mean of the values with its percentile bootstrap interval: (value, low, high).

    For a paired difference, pass the differences. Raises ValueError for no or non-finite values.
    """
    return ratio_interval(values, np.ones(len(values)), resamples=resamples, level=level, seed=seed)


def ratio_interval(
    parts: Values, wholes: Values, *, resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> tuple[float, float, float]:
    """sum(parts) / sum(wholes) with its percentile bootstrap interval: (value, low, high).

    Each (part, whole) is one question, and the bootstrap draws questions, because items of one
    question are not independent. Raises ValueError for no values, for values that are not finite,
    and for wholes that are not above 0.
    """
    if not 0 < level < 1:
        raise ValueError(f"level {level} is outside 0…1")
    ratios = resampled_ratios(parts, wholes, resamples=resamples, seed=seed)
    low, high = tails(ratios, level)
    return float(parts.sum() / wholes.sum()), low, high


def tails(resampled: Values, level: float) -> tuple[float, float]:
    """The ends of the percentile interval."""
    tail = (1 - level) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return float(low), float(high)


def resampled_ratios(parts: Values, wholes: Values, *, resamples: int, seed: int) -> Values:
    """sum(parts) / sum(wholes) of each resample of the pairs, float64 (resamples,).

    Samples of equal length get the same draws from the same seed, so their ratios are paired.
    """
    if len(parts) == 0 or not (np.isfinite(parts).all() and np.isfinite(wholes).all()):
        raise ValueError("an interval needs at least one value, all of them finite")
    if len(parts) != len(wholes) or not (wholes > 0).all():
        raise ValueError("a ratio needs a whole above 0 for each part")
    if resamples < 1:
        raise ValueError(f"resamples {resamples} is below 1")
    generator = np.random.default_rng(seed)
    ratios = np.empty(resamples)
    for start in range(0, resamples, _BLOCK):
        size = min(_BLOCK, resamples - start)
        rows = generator.integers(0, len(parts), size=(size, len(parts)))
        ratios[start : start + size] = parts[rows].sum(axis=1) / wholes[rows].sum(axis=1)
    return ratios


def counts_intervals(
    counts: Values,
    statistics: Callable[[Values], Mapping[str, Values]],
    *,
    resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """Statistics of the summed counts, each with its percentile bootstrap interval, by name.

    `counts` is (units, …), such as hits, found and gold of each document; the bootstrap draws
    units. `statistics` maps sums (n, …) to values (n,) by name. Raises ValueError for no unit.
    """
    if not len(counts):
        raise ValueError("an interval needs at least one unit")
    drawn: dict[str, list[Values]] = {}
    for times in draws(len(counts), resamples=resamples, seed=seed):
        for name, values in statistics(
            np.asarray(np.tensordot(times, counts, 1), np.float64)
        ).items():
            drawn.setdefault(name, []).append(values)
    return {
        name: (float(values[0]), *tails(np.concatenate(drawn[name]), level))
        for name, values in statistics(counts.sum(axis=0)[None]).items()
    }


def quantile_interval(
    values: Values,
    groups: npt.NDArray[np.int64],
    share: float,
    *,
    resamples: int = 1_000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """A quantile of the values with its percentile bootstrap interval over groups.

    `groups` is the group of each value, such as its question; the bootstrap draws whole groups. The
    value is NumPy's quantile; the quantile of a resample is the smallest value with at least
    `share` of the weight up to it. Raises ValueError for no value.
    """
    if not len(values):
        raise ValueError("an interval needs at least one value")
    order = np.argsort(values, kind="stable")
    _, codes = np.unique(groups[order], return_inverse=True)
    found = []
    for times in draws(int(codes.max()) + 1, resamples=resamples, seed=seed):
        weights = np.cumsum(times[:, codes], axis=1)
        places = (weights < share * weights[:, -1:]).sum(axis=1)
        found.append(values[order][np.minimum(places, len(values) - 1)])
    return (float(np.quantile(values, share)), *tails(np.concatenate(found), level))


def draws(size: int, *, resamples: int, seed: int) -> Iterator[Values]:
    """Yield how often each of `size` units is drawn, in blocks (block, size) of the resamples."""
    if resamples < 1:
        raise ValueError(f"resamples {resamples} is below 1")
    generator, even = np.random.default_rng(seed), np.full(size, 1 / size)
    for start in range(0, resamples, _BLOCK):
        block = min(_BLOCK, resamples - start)
        yield generator.multinomial(size, even, size=block).astype(np.float64)


Floats = npt.NDArray[np.float64]
Scale = Literal["nominal", "ordinal", "interval"]


def alpha_interval(
    ratings: Floats,
    scale: Scale = "nominal",
    *,
    groups: Sequence[str] | None = None,
    resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[float, float, float]:
    """Krippendorff's α with its percentile bootstrap interval over items: (value, low, high).

    α is 1 - observed / expected disagreement (Krippendorff 2004, section 11.3): 1 is full
    agreement, 0 is chance. `ratings` is (judges, items), NaN where a judge left an item out; items
    with fewer than two ratings are ignored. Values are ranks ("ordinal"), numbers ("interval") or
    any codes ("nominal"). The bootstrap draws all items of a group (such as a question) together,
    because they are not independent. Draws in which all ratings are equal have no α and are left
    out. Raises ValueError if no two ratings can be paired, or if all paired ratings are equal,
    because α is undefined then.
    """
    values, pairs = _pairs(ratings)
    if groups is not None:
        paired = (~np.isnan(ratings)).sum(axis=0) >= 2
        names, codes = np.unique(np.asarray(groups)[paired], return_inverse=True)
        grouped = np.zeros((len(names), *pairs.shape[1:]))
        np.add.at(grouped, codes, pairs)
        pairs = grouped
    size = len(pairs)
    generator = np.random.default_rng(seed)
    drawn = []
    for start in range(0, resamples, _BLOCK):
        rows = generator.integers(0, size, size=(min(_BLOCK, resamples - start), size))
        times = np.stack([np.bincount(row, minlength=size) for row in rows]).astype(np.float64)
        coincidences = (times @ pairs.reshape(size, -1)).reshape(-1, *pairs.shape[1:])
        drawn.append(_alpha(coincidences, values, scale))
    alphas = np.concatenate(drawn)
    value = float(_alpha(pairs.sum(axis=0)[None], values, scale)[0])
    return (value, *tails(alphas[~np.isnan(alphas)], level))


def _pairs(ratings: Floats) -> tuple[Floats, Floats]:
    """The values, and how often each two of them meet in each item: (items, values, values).

    The weight of an item is its number of ratings. Raises ValueError where α is undefined.
    """
    paired = ratings[:, (~np.isnan(ratings)).sum(axis=0) >= 2]
    if paired.size == 0:
        raise ValueError("no item was rated twice")
    values = np.unique(paired[~np.isnan(paired)])
    if len(values) == 1:
        raise ValueError("all ratings are equal: agreement beyond chance has no value")
    counts = np.stack([(paired == value).sum(axis=0) for value in values], axis=1)
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(len(values))
    return values, pairs / (counts.sum(axis=1) - 1)[:, None, None]


def _alpha(pairs: Floats, values: Floats, scale: Scale) -> Floats:
    """α of each coincidence matrix (n, values, values); NaN where only one value occurs."""
    totals = pairs.sum(axis=2)
    expected = totals[:, :, None] * totals[:, None, :]
    expected -= totals[:, :, None] * np.eye(len(values))
    expected /= (totals.sum(axis=1) - 1)[:, None, None]
    apart = _distances(values, totals, scale)
    observed, by_chance = ((each * apart).sum(axis=(1, 2)) for each in (pairs, expected))
    ratio = np.full(len(pairs), np.nan)
    np.divide(observed, by_chance, out=ratio, where=by_chance > 1e-12)
    return np.asarray(1 - ratio)


def _distances(values: Floats, totals: Floats, scale: Scale) -> Floats:
    """Squared distance between each two values, (1 or n, values, values)."""
    if scale == "nominal":
        return 1.0 - np.eye(len(values))[None]
    if scale == "interval":
        return np.square(values[:, None] - values[None, :])[None]
    if scale != "ordinal":
        raise ValueError(f"scale is {scale!r}: there are nominal, ordinal and interval")
    # The number of ratings between two ranks, with half of the ratings on the two ranks.
    middle = np.cumsum(totals, axis=1) - totals / 2
    return np.square(middle[:, :, None] - middle[:, None, :])


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
    from scipy.stats import binomtest  # evaluations alone need it

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
