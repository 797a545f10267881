"""Rerank by token vectors: MaxSim blended with the score of the ranking before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from srrag.algo.maxsim import maxsim
from srrag.algo.rrf import blend, min_max, rank_scores
from srrag.index.dense import SCORE_DECIMALS
from srrag.index.tokens import TokenIndex
from srrag.retrieve.fuse import codes, pack_ranking
from srrag.retrieve.hits import unpack_hits
from srrag.schema import HITS
from srrag.step import Function, Place, Step


@dataclass(frozen=True, kw_only=True)
class RerankMaxSim(Step):
    """Score the first `depth` hits by MaxSim (Eq. 15 of sr-rag) and blend with their old score.

    Both are stretched to 0…1 within the question; `weight` is MaxSim's share. Hits below `depth`
    keep their order behind. The window's token vectors come from the index, none is computed.
    """

    hits: str = "hits_fused"
    into: str = "hits"
    index: str = "tokens"
    depth: int = 300
    weight: float = 0.5

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The hits and the question's token vectors."""
        return (self.hits, "query_tokens", "query_token_scales")

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
            ids, scores, offsets = unpack_hits(batch[self.hits])
            names, (keys,) = codes([ids])
            rows = np.repeat(np.arange(batch.num_rows), np.diff(offsets))
            place = np.arange(len(rows)) - offsets[rows]
            head = place < self.depth
            late = np.zeros(len(rows), dtype=np.float32)
            listed = ids.to_pylist()
            for row, (tokens, scales) in enumerate(
                zip(batch["query_tokens"], batch["query_token_scales"], strict=True)
            ):
                some = slice(offsets[row], offsets[row] + min(self.depth, np.diff(offsets)[row]))
                query = unpack_tokens(tokens, scales, index.dimension)
                values, scale, ends = index.take(listed[some])
                late[some] = maxsim(query, values, ends, scale)
            mixed = np.empty(len(rows))
            mixed[head] = blend(
                min_max(scores[head], rows[head]), min_max(late[head], rows[head]), self.weight
            )
            # Behind the head, below every blended score (≥ 0), in the order before.
            mixed[~head] = -place[~head].astype(float)
            ranking = rank_scores(rows, keys, mixed, decimals=SCORE_DECIMALS)
            hits = pack_ranking(ranking, names, batch.num_rows)
            return batch.append_column(self.writes.field(0), hits)

        return run


def unpack_tokens(tokens: pa.Scalar, scales: pa.Scalar, dimension: int) -> np.ndarray:
    """A question's token vectors as float32 (tokens, dimension)."""
    values = np.frombuffer(tokens.as_py(), dtype=np.int8).reshape(-1, dimension)
    scale = np.frombuffer(scales.as_py(), dtype=np.float16)
    return values.astype(np.float32) * scale.astype(np.float32)[:, None]
