"""Evidence windows: spans of a chunk that fit into the embedder (SR-RAG, Table S3)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.ids import content_id
from srrag.core.schema import UNITS
from srrag.core.step import Function, Place, Step
from srrag.corpus.spans import Ints, cut_all
from srrag.model.encoder import Encoder
from srrag.model.tokens import load_tokenizer


@dataclass(frozen=True, kw_only=True)
class CutWindows(Step):
    """Cut chunks into windows of at most `size_tokens` of the encoder's tokenizer.

    Table S3: windows of 320 tokens that overlap by 64. A chunk that fits is one window. `order` is
    the window's first character, which rises within a document and depends only on the row.
    """

    version: ClassVar[int] = 2
    reads: ClassVar[tuple[str, ...]] = tuple(name for name in UNITS.names if name != "reject")
    writes: ClassVar[pa.Schema] = UNITS
    keeps_rows: ClassVar[bool] = False

    encoder: Encoder
    size_tokens: int = 320
    overlap_tokens: int = 64

    def __post_init__(self) -> None:
        """Raise ValueError for an impossible size or overlap."""
        if self.size_tokens < 16:
            raise ValueError(f"size_tokens is {self.size_tokens}: windows need 16 tokens at least")
        if not 0 <= 2 * self.overlap_tokens < self.size_tokens:
            raise ValueError(f"overlap_tokens is {self.overlap_tokens}: less than half a window")

    def open(self, at: Place) -> Function:
        """Load the tokenizer."""
        tokenize = load_tokenizer(self.encoder).spans

        def run(batch: pa.Table) -> pa.Table:
            chunks = batch.select(UNITS.names)
            chunks = chunks.filter(pc.is_null(chunks.column("reject")))
            texts = chunks.column("text").to_pylist()
            rows, starts, ends, counts = cut_all(
                texts, tokenize, self.size_tokens, self.overlap_tokens
            )
            return _units(chunks, rows, starts, ends, counts)

        return run


def _units(chunks: pa.Table, rows: Ints, starts: Ints, ends: Ints, counts: Ints) -> pa.Table:
    """Build UNITS rows for windows: their spans in the document; other columns from the chunk."""
    taken = chunks.take(pa.array(rows))
    texts = taken.column("text").to_pylist()
    doc_ids = taken.column("doc_id").to_pylist()
    origin = taken.column("char_start").to_numpy()
    first, last = origin + starts, origin + ends
    spans = zip(first.tolist(), last.tolist(), strict=True)
    columns: dict[str, Any] = {name: taken.column(name) for name in UNITS.names}
    columns |= {
        "unit_id": [
            content_id(doc_id, "window", str(low), str(high))
            for doc_id, (low, high) in zip(doc_ids, spans, strict=True)
        ],
        "view": ["window"] * len(rows),
        "parent_id": taken.column("unit_id"),
        "order": first.astype(np.int32),
        "char_start": first.astype(np.int32),
        "char_end": last.astype(np.int32),
        "text": [
            text[low:high]
            for text, low, high in zip(texts, starts.tolist(), ends.tolist(), strict=True)
        ],
        "num_tokens": counts.astype(np.int32),
        "repairs": np.zeros(len(rows), np.int32),
    }
    return pa.table(columns, schema=UNITS)
