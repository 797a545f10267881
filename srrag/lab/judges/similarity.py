"""Semantic similarity: the cosine of an answer and the ideal answer (SR-RAG, section 4.6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

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

        model = load(self.encoder, at.device, at.threads)

        def run(batch: pa.Table) -> pa.Table:
            cases = [case for case in batch.select(self.reads).to_pylist() if case["ideal_answer"]]
            pairs = [text for case in cases for text in (case["answer"], case["ideal_answer"])]
            vectors = model.encode(pairs)
            cosines = (vectors[::2] * vectors[1::2]).sum(axis=1)
            rows = []
            for case, cosine in zip(cases, cosines, strict=True):
                value = min(1.0, max(0.0, float(cosine)))
                rows.append(
                    SIMILARITY.unanswered(case, "ideal_answer")
                    if case["missing"]
                    else SIMILARITY.judged(case, "ideal_answer", value, "")
                )
            return pa.Table.from_pylist(rows, schema=JUDGEMENTS)

        return run
