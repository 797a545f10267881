"""Read a corpus in the BEIR layout, one document for each passage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from srrag.corpus.lines import json_lines
from srrag.corpus.place import folder
from srrag.corpus.record import RawRecord, plain_id, refusal, unique
from srrag.spec import place_field


@dataclass(frozen=True, kw_only=True)
class ReadBeir:
    """Passages of corpus.jsonl in a folder; only `text` becomes the document's text.

    The title goes into its column only, because in several public sets it is the question itself.
    """

    path: str = place_field()
    max_line_bytes: int = 50_000_000

    def scan(self) -> Iterator[RawRecord]:
        """Check the folder now, then yield one record for each passage."""
        corpus = folder(self.path) / "corpus.jsonl"
        if not corpus.is_file():
            raise ValueError(f"{self.path}: no corpus.jsonl in the folder")
        if not corpus.stat().st_size:
            raise ValueError(f"{self.path}: corpus.jsonl is empty")
        return unique(self._records(corpus))

    def _records(self, corpus: Path) -> Iterator[RawRecord]:
        for line in json_lines(corpus, self.max_line_bytes):
            source = f"{corpus.name}:{line.number}"
            if line.reason:
                yield refusal(source, "beir", line.reason, f"{source}: {line.detail}")
                continue
            source_id = plain_id(line.record.get("_id"))
            if not source_id:
                yield refusal(source, "beir", "no_id", f"{source}: the passage has no _id")
                continue
            yield RawRecord(source, source_id, "beir", line.body)
