"""The best hit of each document."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def best_places(scores: Floats, rows: Ints, documents: Ints) -> Ints:
    """For each hit, the position of the best hit of its document in the same question: (hits,).

    `rows` holds the question of each hit, `documents` a number for each document. Ties go to the
    first.
    """
    order = np.lexsort((np.arange(len(scores)), -scores, documents, rows))
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(rows[order]) != 0) | (np.diff(documents[order]) != 0)
    found = np.empty(len(order), np.int64)
    found[order] = order[np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))]
    return found
