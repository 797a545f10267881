"""What every retrieval channel is: a search of one index that adds its own column of hits."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from srrag.hits import FoundWindows
from srrag.schema import HITS
from srrag.step import Function, Place, Step

Search = Callable[[pa.Table, Sequence[Sequence[str]]], list[FoundWindows]]
"""Questions and tracks → what was found on each; a track is the grades that it searches, () all."""


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
    def searcher(self, at: Place) -> Search:
        """Map the index and return the search of a batch of questions, track by track."""

    def columns(self, found: FoundWindows) -> list[pa.Array]:
        """What this channel writes of what it found."""
        return [found.hits()]

    def open(self, at: Place) -> Function:
        """Map the index; every grade is searched."""
        search = self.searcher(at)

        def run(batch: pa.Table) -> pa.Table:
            (found,) = search(batch, [()])
            for item, column in zip(self.writes, self.columns(found), strict=True):
                batch = batch.append_column(item, column)
            return batch

        return run
