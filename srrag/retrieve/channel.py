"""What every retrieval channel is: a search of one index that adds its own column of hits."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.retrieve.hits import pack_hits
from srrag.schema import HITS
from srrag.step import Function, Place, Step

Found = Sequence[tuple[pa.Array, npt.NDArray[np.float32]]]
"""Unit ids and scores of each question, best first."""


@dataclass(frozen=True, kw_only=True)
class SearchChannel(Step):
    """The `k` best windows of the stage `index` (Table S3 of sr-rag: 300), written `into`."""

    index: str
    into: str
    k: int = 300

    def __post_init__(self) -> None:
        """Raise ValueError for a search of nothing."""
        if self.k < 1:
            raise ValueError(f"k is {self.k}: a search finds at least 1")

    @property
    def writes(self) -> pa.Schema:
        """The hits of this channel."""
        return pa.schema([pa.field(self.into, HITS)])

    def needs(self) -> tuple[str, ...]:
        """The index."""
        return (self.index,)

    @abc.abstractmethod
    def searcher(self, at: Place) -> Callable[[pa.Table], Found]:
        """Map the index and return the search of a batch of questions."""

    def open(self, at: Place) -> Function:
        """Map the index."""
        search = self.searcher(at)

        def run(batch: pa.Table) -> pa.Table:
            return batch.append_column(self.writes.field(0), pack_hits(search(batch)))

        return run
