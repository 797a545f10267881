"""Attention of evidence to weighted features (EbmKG, Eq. 9), and our form."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Form = Literal["paper", "best"]
FORMS: tuple[Form, ...] = get_args(Form)


def attention_scores(
    cosines: npt.NDArray[np.floating],
    usefulness: npt.NDArray[np.floating],
    form: Form,
    temperature: float = 1.0,
) -> Floats:
    """Score each piece of evidence by the usefulness of the features it resembles: (evidence,).

    `cosines` (evidence, features) compare the vectors of both, `usefulness` (features,) is u.

    - `paper` (Eq. 9): Σ_i u_i softmax_i(cos / τ), τ = 1 as printed. The softmax runs over the
      features, so evidence unlike all of them gets their mean usefulness.
    - `best`: max_i u_i cos_i, the one feature that evidence is most useful for.

    Without features every score is 0.
    """
    if not len(usefulness):
        return np.zeros(len(cosines))
    useful, near = np.asarray(usefulness, np.float64), np.asarray(cosines, np.float64)
    if form == "best":
        best: Floats = (near * useful).max(axis=1)
        return best
    scaled = near / temperature
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    scores: Floats = (weights @ useful) / weights.sum(axis=1)
    return scores
