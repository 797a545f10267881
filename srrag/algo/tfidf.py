"""TF-IDF vectors of a few texts, fitted on these texts alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


def tfidf(texts: Sequence[Sequence[str]]) -> Matrix:
    """Unit TF-IDF vectors of tokenised texts: float64 (texts, terms), terms in sorted order.

    The weight of a term is its count times ln((1 + n) / (1 + df)) + 1, over n texts of which df
    hold it (the smoothed form of scikit-learn). A text without a term is a row of zeros.
    """
    names = sorted({term for text in texts for term in text})
    place = {name: column for column, name in enumerate(names)}
    counts = np.zeros((len(texts), len(names)))
    for row, text in enumerate(texts):
        for term, count in Counter(text).items():
            counts[row, place[term]] = count
    held = (counts > 0).sum(axis=0)
    weights = counts * (np.log((1 + len(texts)) / (1 + held)) + 1)
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    found: Matrix = np.divide(weights, lengths, out=np.zeros_like(weights), where=lengths > 0)
    return found
