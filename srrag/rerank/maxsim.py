"""Rerank by token vectors: MaxSim blended with the scores of the channels before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.algo.maxsim import maxsim
from srrag.algo.rrf import min_max, rank_scores
from srrag.index.dense import SCORE_DECIMALS
from srrag.index.tokens import TokenIndex
from srrag.retrieve.fuse import codes, pack_ranking
from srrag.retrieve.hits import unpack_hits
from srrag.schema import HITS
from srrag.step import Function, Place, Step

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class RerankMaxSim(Step):
    """Score the first `depth` hits by MaxSim (Eq. 15 of sr-rag) and by the `blend` columns.

    Every score is stretched to 0…1 within the question (0 where a channel did not find the
    window) and all weigh the same. Hits below `depth` keep their order behind. The window's token
    vectors come from the index; none is computed.
    """

    hits: str = "hits_fused"
    blend: tuple[str, ...] = ("hits_sparse", "hits_dense")
    into: str = "hits"
    index: str = "tokens"
    depth: int = 100

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The hits, the scores to blend, and the question's token vectors."""
        return (self.hits, *self.blend, "query_tokens", "query_token_scales")

    @property
    def writes(self) -> pa.Schema:
        """The reranked hits."""
        return pa.schema([pa.field(self.into, HITS)])

    def needs(self) -> tuple[str, ...]:
        """The token index."""
        return (self.index,)

    def open(self, at: Place) -> Function:
        """Map the token index."""
        index = TokenIndex(at.artifact(self.index))

        def run(batch: pa.Table) -> pa.Table:
            columns = [unpack_hits(batch[name]) for name in (self.hits, *self.blend)]
            names, keys = codes([ids for ids, _, _ in columns])
            rows = [np.repeat(np.arange(batch.num_rows), np.diff(ends)) for _, _, ends in columns]
            place = np.arange(len(rows[0])) - columns[0][2][rows[0]]
            head = place < self.depth
            total = min_max(self._late(batch, columns[0], index)[head], rows[0][head])
            for (_, scores, _), key, row in zip(columns[1:], keys[1:], rows[1:], strict=True):
                known = (row, key, min_max(scores, row))
                total += scores_of(rows[0][head], keys[0][head], known, len(names))
            mixed = np.empty(len(rows[0]))
            mixed[head] = total / len(columns)
            # Behind the head, below every blended score (≥ 0), in the order before.
            mixed[~head] = -place[~head].astype(float)
            ranking = rank_scores(rows[0], keys[0], mixed, decimals=SCORE_DECIMALS)
            hits = pack_ranking(ranking, names, batch.num_rows)
            return batch.append_column(self.writes.field(0), hits)

        return run

    def _late(
        self, batch: pa.Table, hits: tuple[pa.Array, Any, Ints], index: TokenIndex
    ) -> npt.NDArray[np.float32]:
        """MaxSim of the first `depth` hits of each question; 0 for the others."""
        ids, _, offsets = hits
        late = np.zeros(len(ids), dtype=np.float32)
        questions = zip(batch["query_tokens"], batch["query_token_scales"], strict=True)
        for row, (tokens, scales) in enumerate(questions):
            some = slice(offsets[row], min(offsets[row] + self.depth, offsets[row + 1]))
            values, scale, ends = index.take(ids[some].to_pylist())
            query = unpack_tokens(tokens, scales, index.dimension)
            late[some] = maxsim(query, values, ends, scale)
        return late


def scores_of(rows: Ints, keys: Ints, known: tuple[Ints, Ints, Floats], num_keys: int) -> Floats:
    """The known score of each (row, key), 0 where there is none."""
    known_rows, known_keys, scores = known
    if not len(scores):
        return np.zeros(len(rows))
    pairs = known_rows * num_keys + known_keys
    order = np.argsort(pairs)
    wanted = rows * num_keys + keys
    place = np.minimum(np.searchsorted(pairs[order], wanted), len(pairs) - 1)
    found: Floats = np.where(pairs[order][place] == wanted, scores[order][place], 0.0)
    return found


def unpack_tokens(tokens: pa.Scalar, scales: pa.Scalar, dimension: int) -> npt.NDArray[np.float32]:
    """A question's token vectors as float32 (tokens, dimension)."""
    values = np.frombuffer(tokens.as_py(), dtype=np.int8).reshape(-1, dimension)
    scale = np.frombuffer(scales.as_py(), dtype=np.float16)
    return values.astype(np.float32) * scale.astype(np.float32)[:, None]
