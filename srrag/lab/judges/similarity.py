"""Semantic similarity: the cosine of an answer and the ideal answer (SR-RAG, section 4.6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa

from srrag.core.step import Function, Place, Step
from srrag.lab.measure.judgements import JUDGEMENTS, Metric
from srrag.model.encoder import Encoder

SIMILARITY = Metric("semantic_similarity", "an ideal answer in the gold")


@dataclass(frozen=True, kw_only=True)
class MeasureSimilarity(Step):
    """The cosine of the sentence vectors, 0 where it is negative or there is no answer."""

    keeps_rows: ClassVar[bool] = False
    reads: ClassVar[tuple[str, ...]] = ("query_id", "answer", "missing", "ideal_answer")
    writes: ClassVar[pa.Schema] = JUDGEMENTS
    metrics: ClassVar[tuple[Metric, ...]] = (SIMILARITY,)

    encoder: Encoder = field(default_factory=Encoder)

    def open(self, at: Place) -> Function:
        """Load the encoder."""
        from srrag.model.embed import load

        encode = load(self.encoder, at.device, at.threads).encode

        def run(batch: pa.Table) -> pa.Table:
            rows = []
            for case in batch.select(self.reads).to_pylist():
                if case["ideal_answer"] and case["missing"]:
                    rows.append(SIMILARITY.unanswered(case, "ideal_answer"))
                elif case["ideal_answer"]:
                    one, other = encode([case["answer"], case["ideal_answer"]])
                    value = float(np.clip(one @ other, 0, 1))
                    rows.append(SIMILARITY.judged(case, "ideal_answer", value, ""))
            return pa.Table.from_pylist(rows, schema=JUDGEMENTS)

        return run
