"""What a root was told to forget, known by hashes alone: the list itself is no trace."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srrag.corpus.record import RawRecord
from srrag.ids import content_id
from srrag.storage.atomic_write import commit_json, read_json


def mark(name: str) -> str:
    """The hash under which an id is remembered."""
    return content_id("forgotten", name)


@dataclass
class Tombstones:
    """The marks of a root, in `forgotten.json`: what a scan must not bring back.

    `documents` maps the mark of a document to those of its source's id and of its units, and to
    the keys of its prompts: `verify` looks for these. `sources` are ids under which nothing is
    read any more, whatever its content. `at_s` is when the last was forgotten (Unix time).
    """

    path: Path
    documents: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    at_s: float = 0.0
    skipped: int = 0

    @classmethod
    def of(cls, root: Path) -> Tombstones:
        """Read the list; empty where nothing was forgotten."""
        path = root / "forgotten.json"
        kept: dict[str, Any] = read_json(path) if path.exists() else {}
        return cls(path, kept.get("documents", {}), kept.get("sources", []), kept.get("at_s", 0.0))

    def has(self, document: str) -> bool:
        """Whether a document was forgotten."""
        return mark(document) in self.documents

    def has_source(self, source: str) -> bool:
        """Whether what comes under a source's id was forgotten."""
        return mark(source) in self.sources

    def add(self, documents: Mapping[str, Mapping[str, list[str]]], sources: Iterable[str]) -> None:
        """Take documents in, with what to look for; they count from here on."""
        for document, held in documents.items():
            self.documents[mark(document)] = {
                "sources": sorted(map(mark, held["sources"])),
                "units": sorted(set(map(mark, held["units"]))),
                "keys": sorted(held["keys"]),
            }
        self.sources = sorted({*self.sources, *map(mark, sources)})
        self.at_s = time.time()
        self._write()

    def take_back(self, documents: Iterable[str], sources: Iterable[str]) -> int:
        """Let documents be read again, by id or by all that came under a source's id."""
        wanted = set(map(mark, sources))
        gone = {*map(mark, documents)} & self.documents.keys()
        gone |= {
            name for name, held in self.documents.items() if not wanted.isdisjoint(held["sources"])
        }
        for name in gone:
            del self.documents[name]
        self.sources = sorted({*self.sources} - wanted)
        self._write()
        return len(gone)

    def passed(self, records: Iterable[RawRecord]) -> Iterator[RawRecord]:
        """The records that were not forgotten; counts the others in `skipped`."""
        if not (self.documents or self.sources):
            yield from records
            return
        for record in records:
            if self._knows(record):
                self.skipped += 1
            else:
                yield record

    def _knows(self, record: RawRecord) -> bool:
        names = {mark(record.source_id), mark(record.source)}
        return not names.isdisjoint(self.sources) or mark(record.raw_id) in self.documents

    def _write(self) -> None:
        kept = {"documents": self.documents, "sources": self.sources, "at_s": self.at_s}
        commit_json(self.path, kept)
