"""Bootstrap intervals of means, pooled ratios, and statistics of counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

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
