"""Bootstrap intervals of means and of paired differences."""

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
    if len(values) == 0 or not np.isfinite(values).all():
        raise ValueError("an interval needs at least one value, all of them finite")
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"level {level} is outside 0…1, or resamples {resamples} below 1")
    generator = np.random.default_rng(seed)
    means = np.empty(resamples)
    for start in range(0, resamples, _BLOCK):
        size = min(_BLOCK, resamples - start)
        rows = generator.integers(0, len(values), size=(size, len(values)))
        means[start : start + size] = values[rows].mean(axis=1)
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(values.mean()), float(low), float(high)
