"""Read a corpus in the BEIR layout, one document for each passage."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from srrag.core.spec import place_field
from srrag.corpus.record import RawRecord, folder, json_lines, plain_id, refusal, unique


@dataclass(frozen=True, kw_only=True)
class ReadBeir:
    """Passages of corpus.jsonl in a folder; only `text` becomes the document's text.

    In several public sets the title is the question itself, so titles are searched unless a
    question of the queries.jsonl beside the passages equals one (`title` "auto").
    """

    path: str = place_field()
    title: str = place_field("auto")
    max_line_bytes: int = 50_000_000

    def scan(self) -> Iterator[RawRecord]:
        """Check the folder now, then yield one record for each passage."""
        corpus = folder(self.path) / "corpus.jsonl"
        if not corpus.is_file():
            raise ValueError(f"{self.path}: no corpus.jsonl in the folder")
        if not corpus.stat().st_size:
            raise ValueError(f"{self.path}: corpus.jsonl is empty")
        return unique(self._records(corpus))

    def asked_titles(self) -> int:
        """How many questions of queries.jsonl equal a title; 0 where there is no such file."""
        corpus, queries = (Path(self.path) / name for name in ("corpus.jsonl", "queries.jsonl"))
        if not (corpus.is_file() and queries.is_file()):
            return 0
        asked = Counter(self._words(queries, "text"))
        return sum(asked[title] for title in {*self._words(corpus, "title")} - {""})

    def _words(self, file: Path, key: str) -> Iterator[str]:
        """The value of a key in each line, in lower case, without punctuation."""
        for line in json_lines(file, self.max_line_bytes):
            found = "" if line.reason else str(line.record.get(key) or "")
            yield " ".join(re.findall(r"\w+", found.casefold()))

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
