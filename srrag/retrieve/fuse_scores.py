"""Fuse the scores of several channels into one: a weighted mean of stretched scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from srrag.algo.rrf import min_max, sum_shares
from srrag.core.hits import codes, pack_ranking, unpack_hits
from srrag.core.ranking import SCORE_DECIMALS
from srrag.core.schema import HITS
from srrag.core.step import Function, Place, Step


@dataclass(frozen=True, kw_only=True)
class FuseScores(Step):
    """Rank by the weighted mean of the channels' scores, each stretched to 0…1 in its question.

    `weights` maps columns of hits to their weights. A window that a channel did not find has 0
    there. This is the convex sum of normalised scores by which txtai and others join BM25 and
    vectors (Bruch et al. 2023), to compare with `FuseRanks`; ties go by id.
    """

    weights: Mapping[str, float] = field(
        default_factory=lambda: {"hits_sparse": 0.5, "hits_dense": 0.5}
    )
    into: str = "hits"

    def __post_init__(self) -> None:
        """Raise ValueError for no channel, or a weight that is not above 0."""
        if not self.weights:
            raise ValueError("weights: at least one channel is needed")
        for name, weight in self.weights.items():
            if not 0 < weight < math.inf:
                raise ValueError(f"weights.{name} is {weight}: a number above 0 is needed")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The channels' columns."""
        return tuple(sorted(self.weights))

    @property
    def writes(self) -> pa.Schema:
        """The fused hits."""
        return pa.schema([pa.field(self.into, HITS)])

    def open(self, at: Place) -> Function:
        """Return the function; there is nothing to load."""
        total = sum(self.weights.values())

        def run(batch: pa.Table) -> pa.Table:
            columns = [unpack_hits(batch[name]) for name in self.reads]
            names, keys = codes([ids for ids, _, _ in columns])
            rows = [np.repeat(np.arange(len(ends) - 1), np.diff(ends)) for _, _, ends in columns]
            shares = [
                min_max(scores, row) * (self.weights[name] / total)
                for name, (_, scores, _), row in zip(self.reads, columns, rows, strict=True)
            ]
            fused = sum_shares(
                np.concatenate(rows),
                np.concatenate(keys),
                np.concatenate(shares),
                decimals=SCORE_DECIMALS,
            )
            hits = pack_ranking(fused, names, batch.num_rows)
            return batch.append_column(self.writes.field(0), hits)

        return run
