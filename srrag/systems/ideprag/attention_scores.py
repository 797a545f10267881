"""Attention of evidence to weighted features (EbmKG, Eq. 9), and three other forms."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Form = Literal["paper", "sum", "times_cosine", "best"]
FORMS: tuple[Form, ...] = get_args(Form)


def attention_scores(
    cosines: npt.NDArray[np.floating],
    usefulness: npt.NDArray[np.floating],
    form: Form,
    temperature: float = 1.0,
    own: npt.NDArray[np.floating] | None = None,
) -> Floats:
    """Score each piece of evidence by the usefulness of the features it resembles: (evidence,).

    `cosines` (evidence, features) compare the vectors of both, `usefulness` (features,) is u.

    - `paper` (Eq. 9): Σ_i u_i softmax_i(cos / τ), τ = 1 as printed. The softmax runs over the
      features, so evidence unlike all of them gets their mean usefulness.
    - `sum`: Σ_i u_i exp((cos − 1) / τ), not normalised.
    - `times_cosine`: Eq. 9 times ½ + `own` (evidence,), the cosine with the question.
    - `best`: max_i u_i cos_i, the one feature that evidence is most useful for.

    Without features every score is 0, or ½ + `own`.
    """
    factor: Floats | None = None
    if form == "times_cosine":
        if own is None:
            raise ValueError("form times_cosine needs the cosines with the question")
        factor = 0.5 + np.asarray(own, np.float64)
    if not len(usefulness):
        return np.zeros(len(cosines)) if factor is None else factor
    scaled = np.asarray(cosines, np.float64) / temperature
    useful = np.asarray(usefulness, np.float64)
    if form == "best":
        best: Floats = (np.asarray(cosines, np.float64) * useful).max(axis=1)
        return best
    if form == "sum":
        summed: Floats = np.exp(scaled - 1 / temperature) @ useful
        return summed
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    scores: Floats = (weights @ useful) / weights.sum(axis=1)
    return scores if factor is None else scores * factor
