"""The documents of hits: which windows belong to one document, and its best score."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.algo.best_places import best_places
from srrag.core.units import Units

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def study_numbers(units: Units, ids: pa.Array) -> Ints:
    """The number of each window's study: its document, or all documents of its PMID.

    Passages of one article may be indexed as documents of their own; their PMID joins them.
    """
    return units.window_studies[units.rows(ids.to_pylist())].astype(np.int64)


def best_of_documents(scores: Floats, rows: Ints, units: Units, ids: pa.Array) -> Floats:
    """The best score of each hit's document among the question's hits, (hits,)."""
    best: Floats = scores[best_places(scores, rows, study_numbers(units, ids))]
    return best
