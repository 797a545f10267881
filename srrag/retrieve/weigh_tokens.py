"""Weigh the tokens of each question by how rare their words are, for MaxSim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from srrag.core.step import Function, Place, Step
from srrag.index.opened import open_sparse
from srrag.index.words import token_weights
from srrag.model.encoder import COLBERT, Encoder, load_tokenizer


@dataclass(frozen=True, kw_only=True)
class WeighTokens(Step):
    """Add the weight of each of the question's tokens: the IDF of its word in the BM25 index.

    The weights stand for the tokens that `EncodeQuestions` keeps, in their order, as float32 bytes.
    A piece of a word weighs as much as the word. The IDF is that of BM25, ln(1 + (N − n + ½) / (n +
    ½)) with n of N windows that hold the stem; a word that the index leaves out weighs 1. A ColBERT
    learns to weigh tokens by their vectors, so it gets no weights (b""), and all count alike.
    """

    encoder: Encoder = field(default_factory=Encoder)
    text: str = "text"
    index: str = "sparse"

    writes: ClassVar[pa.Schema] = pa.schema([pa.field("query_token_weights", pa.binary())])
    packed: ClassVar[Mapping[str, tuple[str, float]]] = {"query_token_weights": ("float32", 1e-5)}

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The column that is encoded."""
        return (self.text,)

    def needs(self) -> tuple[str, ...]:
        """The BM25 index, for the words' frequencies."""
        return (self.index,)

    def open(self, at: Place) -> Function:
        """Map the index, and read the tokenizer."""
        if self.encoder.backend == COLBERT:
            return self._unweighted
        index = open_sparse(at.artifact(self.index))
        tokenizer = load_tokenizer(self.encoder)
        prefix = self.encoder.query_prefix

        def run(batch: pa.Table) -> pa.Table:
            texts = [prefix + text for text in batch[self.text].to_pylist()]
            weights = [found.tobytes() for found in token_weights(texts, tokenizer, index)]
            return batch.append_column(self.writes.field(0), pa.array(weights, pa.binary()))

        return run

    def _unweighted(self, batch: pa.Table) -> pa.Table:
        return batch.append_column(
            self.writes.field(0), pa.array([b""] * batch.num_rows, pa.binary())
        )
