"""The sparse channel: the windows with the best BM25 score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from srrag.core.hits import FoundWindows
from srrag.core.step import Place
from srrag.index.opened import open_sparse
from srrag.index.words import TITLE_WEIGHT
from srrag.retrieve.channel import Search, SearchChannel


@dataclass(frozen=True, kw_only=True)
class SearchSparse(SearchChannel):
    """BM25 of the words of the column `text`.

    Where titles are a field of their own, a window's score is that of its text plus `title_weight`
    times that of its document's title.
    """

    index: str = "sparse"
    into: str = "hits_sparse"
    text: str = "text"
    title_weight: float = TITLE_WEIGHT

    def __post_init__(self) -> None:
        """Raise ValueError for a weight below 0."""
        super().__post_init__()
        if not 0 <= self.title_weight < math.inf:
            raise ValueError(f"title_weight is {self.title_weight}: a number of at least 0")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The text to search for."""
        return (self.text,)

    def searcher(self, at: Place) -> Search:
        """Map the index."""
        index = open_sparse(at.artifact(self.index), self.title_weight)

        def search(batch: pa.Table, tracks: Sequence[Sequence[str]]) -> list[FoundWindows]:
            texts = batch[self.text].to_pylist()
            return [FoundWindows.of(index.search(texts, self.k, grades)) for grades in tracks]

        return search
