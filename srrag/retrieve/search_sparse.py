"""The sparse channel: the windows with the best BM25 score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from srrag.hits import FoundWindows
from srrag.index.sparse import SparseIndex
from srrag.retrieve.channel import Search, SearchChannel
from srrag.step import Place


@dataclass(frozen=True, kw_only=True)
class SearchSparse(SearchChannel):
    """BM25 of the words of the column `text`."""

    index: str = "sparse"
    into: str = "hits_sparse"
    text: str = "text"

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The text to search for."""
        return (self.text,)

    def searcher(self, at: Place) -> Search:
        """Map the index."""
        index = SparseIndex(at.artifact(self.index))

        def search(batch: pa.Table, tracks: Sequence[Sequence[str]]) -> list[FoundWindows]:
            texts = batch[self.text].to_pylist()
            return [FoundWindows.of(index.search(texts, self.k, grades)) for grades in tracks]

        return search
