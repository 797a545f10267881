"""Base of all retrieval channels: search one index and add a column of hits."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from srrag.core.hits import FoundWindows
from srrag.core.schema import HITS
from srrag.core.step import Function, Place, Step

Search = Callable[[pa.Table, Sequence[Sequence[str]]], list[FoundWindows]]
"""Searches questions on tracks and returns the finds of each track; a track () is all grades."""


@dataclass(frozen=True, kw_only=True)
class SearchChannel(Step):
    """Search the stage `index` for the `k` best windows (Table S3 of sr-rag: 300)."""

    index: str
    into: str
    k: int = 300

    def __post_init__(self) -> None:
        """Raise ValueError if `k` is below 1."""
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
        """The columns that this channel writes, made from its finds."""
        return [found.hits()]

    def open(self, at: Place) -> Function:
        """Map the index; the function searches every grade."""
        search, fields = self.searcher(at), list(self.writes)

        def run(batch: pa.Table) -> pa.Table:
            (found,) = search(batch, [()])
            for item, column in zip(fields, self.columns(found), strict=True):
                batch = batch.append_column(item, column)
            return batch

        return run
