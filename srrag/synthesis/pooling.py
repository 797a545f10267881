"""Fixed and random effects of several studies, by statsmodels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from srrag.core.errors import UsageError

Interval = tuple[float, float]


@dataclass(frozen=True)
class PooledEffect:
    """Estimates over studies on the scale that they were pooled on, with intervals of 95 %.

    `tau2` is the variance between studies (DerSimonian and Laird 1986), `i2` its share of all
    (Higgins and Thompson 2002); neither is below 0. `prediction` is where the effect of a further
    study would lie (Higgins et al. 2009, t with k − 2 degrees), None for fewer than three studies.
    """

    studies: int
    fixed: float
    fixed_interval: Interval
    random: float
    random_interval: Interval
    prediction: Interval | None
    q: float
    p: float
    i2: float
    tau2: float


def pool(estimates: Sequence[float], variances: Sequence[float]) -> PooledEffect:
    """Pool two or more estimates by inverse variance; raises ValueError for what cannot be.

    statsmodels leaves τ² and I² below 0 where studies differ less than chance has it, which makes
    random effects surer than fixed ones: there they are 0, and both models agree.
    """
    values, spread = np.asarray(estimates, float), np.asarray(variances, float)
    if values.ndim != 1 or values.shape != spread.shape or len(values) < 2:
        raise ValueError("two studies at least are pooled, each with an estimate and a variance")
    if not (np.isfinite(values).all() and np.isfinite(spread).all() and (spread > 0).all()):
        raise ValueError("an estimate or a variance is no number, or a variance is not above 0")
    try:
        from scipy import stats  # slow to import, and a server seldom pools
        from statsmodels.stats.meta_analysis import combine_effects
    except ModuleNotFoundError as error:
        raise UsageError("pooling needs: pip install 'srrag[synthesis]'") from error

    with np.errstate(invalid="ignore"):  # a variant that is not read fails where τ² is below 0
        made = combine_effects(values, spread, method_re="chi2")
    fixed, fixed_error = float(made.mean_effect_fe), float(made.sd_eff_w_fe)
    random, error_ = float(made.mean_effect_re), float(made.sd_eff_w_re)
    tau2 = max(0.0, float(made.tau2))
    if tau2 == 0:
        random, error_ = fixed, fixed_error
    k, q = len(values), float(made.q)
    ahead = None
    if k > 2:
        reach = float(stats.t.ppf(0.975, k - 2)) * math.sqrt(tau2 + error_**2)
        ahead = (random - reach, random + reach)
    return PooledEffect(
        k, fixed, _around(fixed, fixed_error), random, _around(random, error_), ahead,
        q, float(stats.chi2.sf(q, k - 1)), max(0.0, float(made.i2)), tau2,
    )  # fmt: skip


def _around(middle: float, error: float) -> Interval:
    reach = NormalDist().inv_cdf(0.975) * error
    return middle - reach, middle + reach
