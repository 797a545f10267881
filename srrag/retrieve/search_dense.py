"""The dense channel: the windows nearest to the question's vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from srrag.index.dense import DenseIndex, unpack_vectors
from srrag.retrieve.channel import Found, SearchChannel
from srrag.step import Place


@dataclass(frozen=True, kw_only=True)
class SearchDense(SearchChannel):
    """Inner product of the question's vector with those of the windows."""

    index: str = "dense"
    into: str = "hits_dense"

    reads: ClassVar[tuple[str, ...]] = ("query_vector",)

    def searcher(self, at: Place) -> Callable[[pa.Table], Found]:
        """Map the index."""
        index = DenseIndex(at.artifact(self.index), at.threads)

        def search(batch: pa.Table) -> Found:
            if not batch.num_rows:
                return []
            return index.search(unpack_vectors(batch["query_vector"]), self.k)

        return search
