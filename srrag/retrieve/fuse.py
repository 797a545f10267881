"""Fuse the rankings of several channels into one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.rrf import RRF_K, Ranking, reciprocal_rank_fusion
from srrag.retrieve.hits import pack_flat, ranks, unpack_hits
from srrag.schema import HITS
from srrag.step import Function, Place, Step

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
        """Nothing to load."""

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


def codes(columns: list[pa.Array]) -> tuple[pa.Array, list[Ints]]:
    """Number the ids of several columns in the order of their names."""
    names = pc.unique(pa.concat_arrays(columns))
    names = names.take(pc.sort_indices(names))
    found = [pc.index_in(column, value_set=names) for column in columns]
    return names, [np.asarray(column, dtype=np.int64) for column in found]


def pack_ranking(ranking: Ranking, names: pa.Array, num_rows: int, depth: int = 0) -> pa.Array:
    """A HITS column of `num_rows` lists from a ranking over all of them."""
    keep = ranking.rank <= depth if depth else np.ones(len(ranking.rank), dtype=bool)
    query = ranking.query[keep]
    offsets = np.searchsorted(query, np.arange(num_rows + 1))
    ids = names.take(pa.array(ranking.key[keep]))
    return pack_flat(ids, ranking.score[keep], ranking.rank[keep], offsets)
