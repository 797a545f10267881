"""Bootstrap intervals of means and of pooled ratios."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

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
