"""Fuse the rankings of several channels into one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.algo.fusion import RRF_K, reciprocal_rank_fusion
from srrag.core.hits import codes, pack_ranking, ranks, unpack_hits
from srrag.core.schema import HITS
from srrag.core.step import Function, Place, Step

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class FuseRanks(Step):
    """Reciprocal rank fusion of the `channels` (Eq. 1 of sr-rag, k = 60); ties go by id.

    `depth` bounds the fused list; 0 keeps all.
    """

    channels: tuple[str, ...]
    into: str = "hits"
    k: float = RRF_K
    depth: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for no channel, or a number below 0."""
        if not self.channels or not self.k >= 0 or self.depth < 0:
            raise ValueError("channels: at least one is needed; k and depth cannot be negative")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The channels' columns."""
        return self.channels

    @property
    def writes(self) -> pa.Schema:
        """The fused hits."""
        return pa.schema([pa.field(self.into, HITS)])

    def open(self, at: Place) -> Function:
        """Return the function; there is nothing to load."""

        def run(batch: pa.Table) -> pa.Table:
            columns = [unpack_hits(batch[name]) for name in self.channels]
            names, keys = codes([ids for ids, _, _ in columns])
            sizes = [np.diff(offsets) for _, _, offsets in columns]
            fused = reciprocal_rank_fusion(
                np.concatenate([np.repeat(np.arange(len(size)), size) for size in sizes]),
                np.concatenate(keys),
                np.concatenate([ranks(size) for size in sizes]),
                k=self.k,
            )
            hits = pack_ranking(fused, names, batch.num_rows, self.depth)
            return batch.append_column(self.writes.field(0), hits)

        return run
