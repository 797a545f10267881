"""The order of search results: by rounded score, then by id, the same for any index and split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ranked = tuple[pa.Array, npt.NDArray[np.float32]]
"""Ids and scores of one search, best first."""

SCORE_DECIMALS = 5
"""Rankings sort by the score rounded to this many decimals, then by id."""


def rank(ids: pa.Array, scores: npt.NDArray[np.float32], k: int) -> Ranked:
    """Sort by rounded score, then by id, and keep k; the order does not depend on the batch."""
    by_id = np.asarray(pc.rank(ids, tiebreaker="dense"))  # NumPy would compare Python's strings
    order = np.lexsort((by_id, -np.round(scores, SCORE_DECIMALS)))[:k]
    return ids.take(pa.array(order)), scores[order]


def tied(first: Any, second: Any) -> Any:
    """Whether two scores are equal to the ranking."""
    return np.round(first, SCORE_DECIMALS) == np.round(second, SCORE_DECIMALS)


def merge(found: Sequence[Ranked], k: int) -> Ranked:
    """Merge searches that share no unit; returns the k best."""
    return rank(*_joined(found), k)


def pool(found: Sequence[Ranked], k: int) -> Ranked:
    """Merge searches that may share units, each unit with its best score; returns the k best."""
    if len(found) == 1:
        return found[0][0][:k], found[0][1][:k]
    ids, scores = _joined(found)
    coded = ids.dictionary_encode()
    best = np.full(len(coded.dictionary), -np.inf, np.float32)
    np.maximum.at(best, np.asarray(coded.indices), scores)
    return rank(coded.dictionary, best, k)


def _joined(found: Sequence[Ranked]) -> Ranked:
    ids = pa.concat_arrays([pa.array([], pa.string()), *(ids for ids, _ in found)])
    scores = [np.zeros(0, np.float32), *(scores for _, scores in found)]
    return ids, np.concatenate(scores).astype(np.float32)
