"""Retrieval channels: each searches one index and adds its own column of hits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from srrag.index.dense import DenseIndex, unpack_vectors
from srrag.index.sparse import SparseIndex
from srrag.retrieve.hits import pack_hits
from srrag.schema import HITS
from srrag.step import Function, Place, Step


@dataclass(frozen=True, kw_only=True)
class SearchDense(Step):
    """The k windows nearest to the question's vector (Table S3: k = 300)."""

    index: str = "dense"
    k: int = 300
    into: str = "hits_dense"

    reads: ClassVar[tuple[str, ...]] = ("query_vector",)

    @property
    def writes(self) -> pa.Schema:
        """The hits of this channel."""
        return pa.schema([pa.field(self.into, HITS)])

    def needs(self) -> tuple[str, ...]:
        """The dense index."""
        return (self.index,)

    def open(self, at: Place) -> Function:
        """Map the index."""
        index = DenseIndex(at.artifact(self.index), at.threads)

        def run(batch: pa.Table) -> pa.Table:
            hits = []
            if batch.num_rows:
                hits = index.search(unpack_vectors(batch["query_vector"]), self.k)
            return batch.append_column(self.writes.field(0), pack_hits(hits))

        return run


@dataclass(frozen=True, kw_only=True)
class SearchSparse(Step):
    """The k windows with the best BM25 score."""

    index: str = "sparse"
    k: int = 300
    into: str = "hits_sparse"

    reads: ClassVar[tuple[str, ...]] = ("text",)

    @property
    def writes(self) -> pa.Schema:
        """The hits of this channel."""
        return pa.schema([pa.field(self.into, HITS)])

    def needs(self) -> tuple[str, ...]:
        """The sparse index."""
        return (self.index,)

    def open(self, at: Place) -> Function:
        """Map the index."""
        index = SparseIndex(at.artifact(self.index))

        def run(batch: pa.Table) -> pa.Table:
            hits = index.search(batch["text"].to_pylist(), self.k)
            return batch.append_column(self.writes.field(0), pack_hits(hits))

        return run
