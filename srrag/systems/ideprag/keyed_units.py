"""Cut documents with keywords into text units of fixed length (EbmKG, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.schema import KEYED_DOCUMENTS, KEYED_UNITS
from srrag.core.spec import content_id
from srrag.core.step import Function, Place, Step
from srrag.corpus.windows import cut_all
from srrag.model.encoder import Encoder, load_tokenizer


@dataclass(frozen=True, kw_only=True)
class CutKeyedUnits(Step):
    """Cut documents into units of at most `size_tokens` that share the document's keywords.

    EbmKG slices at 1,024 tokens with an overlap of 200 (appendix A.3).
    """

    reads: ClassVar[tuple[str, ...]] = tuple(KEYED_DOCUMENTS.names)
    writes: ClassVar[pa.Schema] = KEYED_UNITS
    keeps_rows: ClassVar[bool] = False

    encoder: Encoder = field(default_factory=Encoder)
    size_tokens: int = 1024
    overlap_tokens: int = 200

    def __post_init__(self) -> None:
        """Raise ValueError for an impossible size or overlap."""
        if self.size_tokens < 16:
            raise ValueError(f"size_tokens is {self.size_tokens}: units need 16 tokens at least")
        if not 0 <= 2 * self.overlap_tokens < self.size_tokens:
            raise ValueError(f"overlap_tokens is {self.overlap_tokens}: less than half a unit")

    def open(self, at: Place) -> Function:
        """Load the tokenizer."""
        tokenize = load_tokenizer(self.encoder).spans

        def run(batch: pa.Table) -> pa.Table:
            documents = batch.filter(pc.is_null(batch["reject"]))
            texts = documents["text"].to_pylist()
            rows, starts, ends, _ = cut_all(texts, tokenize, self.size_tokens, self.overlap_tokens)
            taken = documents.take(pa.array(rows))
            spans = list(zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True))
            doc_ids = taken["doc_id"].to_pylist()
            columns = {
                "unit_id": [
                    content_id(doc_id, "text unit", str(low), str(high))
                    for doc_id, (_, low, high) in zip(doc_ids, spans, strict=True)
                ],
                "doc_id": doc_ids,
                "title": taken["title"],
                "char_start": starts.astype(np.int32),
                "char_end": ends.astype(np.int32),
                "text": [texts[row][low:high] for row, low, high in spans],
                "grade": taken["grade"],
                "keywords": taken["keywords"],
                "reject": pa.nulls(len(spans), KEYED_UNITS.field("reject").type),
            }
            return pa.table(columns, schema=KEYED_UNITS)

        return run
