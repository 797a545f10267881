"""The sparse channel: the windows with the best BM25 score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from srrag.index.sparse import SparseIndex
from srrag.retrieve.channel import Found, SearchChannel
from srrag.step import Place


@dataclass(frozen=True, kw_only=True)
class SearchSparse(SearchChannel):
    """BM25 of the question's words."""

    index: str = "sparse"
    into: str = "hits_sparse"

    reads: ClassVar[tuple[str, ...]] = ("text",)

    def searcher(self, at: Place) -> Callable[[pa.Table], Found]:
        """Map the index."""
        index = SparseIndex(at.artifact(self.index))
        return lambda batch: index.search(batch["text"].to_pylist(), self.k)
