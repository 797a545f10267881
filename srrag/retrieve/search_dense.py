"""The dense channel: the windows nearest to the question's vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from srrag.core.hits import FoundWindows, Offsets, pool
from srrag.core.step import Place
from srrag.index.opened import open_dense
from srrag.index.parts import Matrix
from srrag.retrieve.channel import Search, SearchChannel


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
