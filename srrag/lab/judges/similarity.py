"""Semantic similarity: the cosine of an answer and the ideal answer (SR-RAG, section 4.6)."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from srrag.core.step import Function, Place, Step
from srrag.lab.measure.judgements import JUDGEMENTS, Case, Judgement, Metric
from srrag.model.encoder import Encoder

SIMILARITY = Metric("semantic_similarity", "an ideal answer in the gold")
Encode = Callable[..., Any]
"""Encodes texts as unit vectors, a row each."""


@dataclass(frozen=True, kw_only=True)
class CosineMeasure(Step):
    """Computes judgements from a case by vectors of its texts."""

    keeps_rows: ClassVar[bool] = False
    writes: ClassVar[pa.Schema] = JUDGEMENTS
    metrics: ClassVar[tuple[Metric, ...]]

    encoder: Encoder = field(default_factory=Encoder)

    @abc.abstractmethod
    def cosines(self, case: Case, encode: Encode) -> Iterable[Judgement]:
        """Compute the judgements of a case."""

    def open(self, at: Place) -> Function:
        """Load the encoder."""
        from srrag.model.embed import load

        encode = load(self.encoder, at.device, at.threads).encode

        def run(batch: pa.Table) -> pa.Table:
            cases = batch.select(self.reads).to_pylist()
            rows = [judgement for case in cases for judgement in self.cosines(case, encode)]
            return pa.Table.from_pylist(rows, schema=JUDGEMENTS)

        return run


@dataclass(frozen=True, kw_only=True)
class MeasureSimilarity(CosineMeasure):
    """The cosine of the sentence vectors, 0 where it is negative or there is no answer."""

    reads: ClassVar[tuple[str, ...]] = ("query_id", "answer", "missing", "ideal_answer")
    metrics: ClassVar[tuple[Metric, ...]] = (SIMILARITY,)

    def cosines(self, case: Case, encode: Encode) -> Iterable[Judgement]:
        """A judgement an ideal answer."""
        if case["ideal_answer"] and case["missing"]:
            yield SIMILARITY.unanswered(case, "ideal_answer")
        elif case["ideal_answer"]:
            one, other = encode([case["answer"], case["ideal_answer"]])
            value = min(1.0, max(0.0, float(one @ other)))
            yield SIMILARITY.judged(case, "ideal_answer", value, "")
