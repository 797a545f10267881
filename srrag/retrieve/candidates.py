"""What is ranked: the hits of several channels in one list, and the rest of their documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from srrag.algo.fusion import RRF_K, reciprocal_rank_fusion
from srrag.algo.maxsim import take_ragged
from srrag.core.hits import codes, pack_flat, pack_ranking, ranks, unpack_hits
from srrag.core.schema import HITS
from srrag.core.step import Function, Place, Step
from srrag.core.units import open_units


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


@dataclass(frozen=True, kw_only=True)
class CompleteDocuments(Step):
    """Add the other windows of the documents of the best `top` hits, for a reranker.

    Documents of one PMID are one. A document of more than `most` windows, such as a book, is not
    completed. Added windows follow the hits in the order of their documents, with a score of 0 or
    the last hit's, whichever is lower.
    """

    hits: str = "hits_fused"
    into: str = "hits_whole"
    top: int = 100
    most: int = 30
    units: str = "units"

    def __post_init__(self) -> None:
        """Raise ValueError for a number below 1."""
        if self.top < 1 or self.most < 1:
            raise ValueError("top and most must be at least 1")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The hits."""
        return (self.hits,)

    @property
    def writes(self) -> pa.Schema:
        """The hits and what was added."""
        return pa.schema([pa.field(self.into, HITS)])

    def needs(self) -> tuple[str, ...]:
        """The units index, which knows the windows of each document."""
        return (self.units,)

    def open(self, at: Place) -> Function:
        """Map the index."""
        units = open_units(at, self.units)
        windows, bounds = units.study_windows
        few = np.diff(bounds) <= self.most

        def run(batch: pa.Table) -> pa.Table:
            ids, scores, offsets = unpack_hits(batch[self.hits])
            found = units.rows(ids.to_pylist())
            row = np.repeat(np.arange(batch.num_rows), np.diff(offsets))
            head = ranks(np.diff(offsets)) <= self.top
            # The documents of each question's best hits, in their order.
            key = row[head] * max(1, len(few)) + units.window_studies[found[head]]
            key = key[np.sort(np.unique(key, return_index=True)[1])]
            owner, study = np.divmod(key, max(1, len(few)))
            owner, study = owner[few[study]], study[few[study]]
            places, ends = take_ragged(bounds, study)
            owner, whole = np.repeat(owner, np.diff(ends)), windows[places].astype(np.int64)
            new = ~np.isin(owner * len(units) + whole, row * len(units) + found)
            owner, whole = owner[new], whole[new]
            least = np.zeros(batch.num_rows, np.float32)
            np.minimum.at(least, row, scores)
            row = np.concatenate([row, owner])
            order = np.argsort(row, kind="stable")
            every = pa.concat_arrays([ids, units.ids(whole)]).take(pa.array(order))
            score = np.concatenate([scores, least[owner]])[order]
            sizes = np.bincount(row, minlength=batch.num_rows)
            bounds_of = np.concatenate([[0], np.cumsum(sizes)])
            hits = pack_flat(every, score, ranks(sizes), bounds_of)
            return batch.append_column(self.writes.field(0), hits)

        return run
