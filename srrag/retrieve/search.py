"""Retrieval channels: search one index and add a column of hits; BM25, and vectors."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from srrag.core.hits import FoundWindows, Offsets, pool
from srrag.core.rows import with_columns
from srrag.core.schema import HITS
from srrag.core.step import Function, Place, Step
from srrag.index.opened import open_dense, open_sparse
from srrag.index.parts import Matrix
from srrag.index.words import TITLE_WEIGHT

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
        search, writes = self.searcher(at), self.writes

        def run(batch: pa.Table) -> pa.Table:
            (found,) = search(batch, [()])
            return with_columns(batch, pa.table(self.columns(found), schema=writes))

        return run


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


@dataclass(frozen=True, kw_only=True)
class SearchDense(SearchChannel):
    """Search by the inner product of the windows' vectors with those in the column `vectors`.

    The column holds float32 vectors per question, or none (b""), which finds nothing. Several
    vectors are searched one by one and pooled by best score into one list of `k`, so that the
    channel counts once in Eq. 1 of sr-rag, however many passages it searches for.
    """

    index: str = "dense"
    into: str = "hits_dense"
    vectors: str = "query_vector"

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The vectors to search for."""
        return (self.vectors,)

    def searcher(self, at: Place) -> Search:
        """Map the index."""
        index = open_dense(at.artifact(self.index), at.threads, at.device)

        def search(batch: pa.Table, tracks: Sequence[Sequence[str]]) -> list[FoundWindows]:
            queries, ends = self._queries(batch, index.dimension)
            found = []
            for grades in tracks:
                single = index.search(queries, self.k, grades)
                groups = [single[a:b] for a, b in pairwise(ends)]
                found.append(FoundWindows.of([pool(group, self.k) for group in groups]))
            return found

        return search

    def _queries(self, batch: pa.Table, dimension: int) -> tuple[Matrix, Offsets]:
        """The vectors of all questions, (n, dimension), and the offsets of each question."""
        rows = batch[self.vectors].to_pylist()
        sizes = np.array([len(row) for row in rows], np.int64)
        width = np.dtype(np.float32).itemsize * dimension
        if (wrong := sizes % width).any():
            size = int(sizes[np.argmax(wrong > 0)])
            raise ValueError(
                f"column {self.vectors!r}: {size} bytes are no vectors of {dimension} numbers"
            )
        queries = np.frombuffer(b"".join(rows), np.float32).reshape(-1, dimension)
        return queries, np.concatenate([[0], np.cumsum(sizes // width)])
