"""Base of all rerankers: score the hits of a column and rank them into another."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.algo.rrf import rank_scores
from srrag.hits import Offsets, codes, pack_ranking, unpack_hits
from srrag.ranking import SCORE_DECIMALS
from srrag.schema import HITS
from srrag.step import Function, Place, Step

Score = Callable[[pa.Table, pa.Array, Offsets], npt.NDArray[Any]]
"""Returns a score for each hit, from the questions, the unit ids of all hits, and their offsets."""


@dataclass(frozen=True, kw_only=True)
class Reranker(Step):
    """Rank the windows in the column `hits` by a new score, best first, `into` another column.

    Only the first `keep` of each question go on; 0 keeps all. Ties, after rounding, are sorted by
    id.
    """

    hits: str
    into: str = "hits"
    keep: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a negative `keep`."""
        if self.keep < 0:
            raise ValueError(f"keep is {self.keep}: a number of windows, or 0 for all")

    @property
    def writes(self) -> pa.Schema:
        """The reranked hits."""
        return pa.schema([pa.field(self.into, HITS)])

    @abc.abstractmethod
    def scorer(self, at: Place) -> Score:
        """Load models and indexes; return a function that scores each question independently."""

    def open(self, at: Place) -> Function:
        """Load models and indexes."""
        score = self.scorer(at)

        def run(batch: pa.Table) -> pa.Table:
            ids, _, offsets = unpack_hits(batch[self.hits])
            ranked = rank_hits(ids, score(batch, ids, offsets), offsets, self.keep)
            return batch.append_column(self.writes.field(0), ranked)

        return run


def rank_hits(ids: pa.Array, scores: npt.NDArray[Any], offsets: Offsets, keep: int = 0) -> pa.Array:
    """Make a sorted HITS column from flat ids and scores; `offsets` delimit the questions."""
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    names, (keys,) = codes([ids])
    ranking = rank_scores(rows, keys, scores, decimals=SCORE_DECIMALS)
    return pack_ranking(ranking, names, len(offsets) - 1, keep)
