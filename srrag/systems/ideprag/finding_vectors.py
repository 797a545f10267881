"""Encode findings: a sentence vector each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from srrag.core.schema import FINDING_VECTORS
from srrag.core.step import Function, Place, Step
from srrag.index.encode import EncodeWindows, VectorCache, text_keys
from srrag.model.encoder import Encoder


@dataclass(frozen=True, kw_only=True)
class EncodeFindings(Step):
    """Findings → their vectors; texts that any build of this root has as windows are copied."""

    encoder: Encoder = field(default_factory=Encoder)

    reads: ClassVar[tuple[str, ...]] = ("evidence_id", "text", "reject")
    writes: ClassVar[pa.Schema] = FINDING_VECTORS
    packed: ClassVar[Mapping[str, tuple[str, float]]] = {"vector": ("float32", 1e-5)}

    def open(self, at: Place) -> Function:
        """Load the encoder."""
        from srrag.model.embed import load

        model = load(self.encoder, at.device, at.threads)
        cache = VectorCache(at.root, EncodeWindows(encoder=self.encoder))

        def run(batch: pa.Table) -> pa.Table:
            texts = batch["text"].to_pylist()
            keys = text_keys(texts)
            found = {number: row[0] for number, row in cache.find(keys).items()}
            new = {n: t for n, t in zip(keys.tolist(), texts, strict=True) if n not in found}
            vectors = model.encode(list(new.values())) if new else ()
            found |= {n: v.tobytes() for n, v in zip(new, vectors, strict=True)}
            packed = pa.array([found[number] for number in keys.tolist()], pa.binary())
            columns = [batch["evidence_id"], packed, batch["reject"]]
            return pa.table(columns, schema=FINDING_VECTORS)

        return run
