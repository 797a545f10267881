"""Rerank by the bi-encoder logit: similarities stored in the indexes, as log odds."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from importlib.resources import files
from typing import ClassVar

import numpy as np
import pyarrow as pa

from srrag.core.hits import Offsets
from srrag.core.provenance import Fitted, read_fitted
from srrag.core.step import Place
from srrag.index.tokens import TokenIndex
from srrag.rerank.maxsim import Floats, late_scores, question_tokens
from srrag.rerank.reranker import Reranker, Score

LOGITS = "logits.json"
"""Weights that come with the package, and their training data."""


@dataclass(frozen=True, kw_only=True)
class RerankBiEncoder(Reranker):
    """Score by `scale` · cos + `late` · MaxSim / tokens + `shift`.

    Fine ranking without another model: cos compares the sentence vectors, MaxSim is Eq. 15 of
    sr-rag per token of the question. Terms of weight 0 are not read. The sum is a logit like a
    cross-encoder's, the log odds of relevance, so that grade biases (Eq. 9), margins and floors
    have the same unit.

    The defaults come from a logistic regression for the packaged encoder on the training questions
    of two benchmarks, weighted equally: `python -m srrag.lab.fits.logits D/rehab R1 D/bioasq R2
    --questions 400`.
    """

    version: ClassVar[int] = 2

    hits: str = "hits_coarse"
    scale: float = 3.977
    late: float = 16.774
    shift: float = -13.613
    index: str = "tokens"

    def __post_init__(self) -> None:
        """Raise ValueError for weights that would reverse the ranking."""
        super().__post_init__()
        for name in ("scale", "late"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}: a number of at least 0")
        if not math.isfinite(self.shift):
            raise ValueError(f"shift is {self.shift}: a finite number is needed")

    def fitted(self) -> tuple[Fitted, ...]:
        """The questions that the weights were fitted on; unknown for weights from elsewhere."""
        told = json.loads(files("srrag.rerank").joinpath(LOGITS).read_text("utf-8"))
        own = {name: getattr(self, name) for name in ("scale", "late", "shift")}
        seen = told if own in told["weights"] else {}
        return (read_fitted(seen, "bi-encoder logit", LOGITS),)

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The hits and what the terms are made of."""
        vector = ("query_vector",) if self.scale else ()
        tokens = ("query_tokens", "query_token_scales") if self.late else ()
        return (self.hits, *vector, *tokens)

    def needs(self) -> tuple[str, ...]:
        """The token index, which holds the sentence vectors too."""
        return (self.index, "units") if self.tracks else (self.index,)

    def scorer(self, at: Place) -> Score:
        """Map the vectors."""
        index = TokenIndex(at.artifact(self.index))

        def score(batch: pa.Table, ids: pa.Array, offsets: Offsets) -> Floats:
            logits = np.full(len(ids), self.shift)
            if self.scale:
                logits += self.scale * _cosines(batch, ids, offsets, index)
            if self.late:
                tokens = question_tokens(batch, index.dimension)
                logits += self.late * late_scores(tokens, ids, offsets, index, mean=True)
            return logits

        return score


def _cosines(batch: pa.Table, ids: pa.Array, offsets: Offsets, index: TokenIndex) -> Floats:
    """The cosine of each hit with its question; both vectors have unit length."""
    cosines = np.zeros(len(ids))
    for row, vector in enumerate(batch["query_vector"].to_pylist()):
        some = slice(offsets[row], offsets[row + 1])
        query = np.frombuffer(vector, dtype=np.float32)
        cosines[some] = index.take_vectors(ids[some].to_pylist()) @ query
    return cosines
