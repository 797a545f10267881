"""Tombstones: the documents that a root has forgotten, known only by the hashes of their ids."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srrag.core.errors import UsageError
from srrag.core.spec import content_id
from srrag.corpus.record import RawRecord
from srrag.storage import mirror
from srrag.storage.atomic_write import commit_json, read_json
from srrag.storage.manifest import CURE, DamagedError

FILE = "forgotten.json"
COPY = "forgotten.copy.json"
"""A second copy, since no other file records which documents must not come back."""


def mark(name: str) -> str:
    """Return the hash of an id."""
    return content_id("forgotten", name)


@dataclass
class Tombstones:
    """The tombstones of a root, in `forgotten.json`: documents that a scan must skip.

    `documents` maps the hash of a document to the hashes of its source id and of its units, and to
    the keys of its prompts; `verify` searches for these. `sources` are source ids that scans skip
    whatever their content. `at_s` is the time of the last deletion (Unix time, seconds): later than
    that of any file then in the root, as a clock may have been set back.
    """

    path: Path
    documents: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    at_s: float = 0.0
    skipped: int = 0

    @classmethod
    def of(cls, root: Path) -> Tombstones:
        """Read the list; it is empty if nothing was forgotten."""
        path = root / FILE
        kept: dict[str, Any] = {}
        if path.exists() or (root / COPY).exists():
            try:
                kept = _read(path)
            except (OSError, ValueError) as error:
                told = f"{mirror.shown(path)} is missing" if isinstance(error, OSError) else error
                raise DamagedError(f"{told}; {CURE}") from error
        return cls(path, kept.get("documents", {}), kept.get("sources", []), kept.get("at_s", 0.0))

    @staticmethod
    def problems(root: Path) -> list[str]:
        """Report whether the list or its copy is damaged or missing, if either was ever written."""
        found = []
        for name in (FILE, COPY) if (root / COPY).exists() else (FILE,):
            try:
                _read(root / name)
            except FileNotFoundError:
                if name == FILE and (root / COPY).exists():
                    found.append(f"{root / name} is missing")
            except ValueError as error:
                found.append(str(error))
        return found

    @classmethod
    def mend(cls, root: Path) -> list[str]:
        """Restore the list from its copy, or the copy from the list; returns a line for each.

        Raises ValueError if both are damaged, because nothing else records the deletions.
        """
        problems = cls.problems(root)
        if not problems:
            return []
        for name in (FILE, COPY):
            try:
                kept = _read(root / name)
            except (OSError, ValueError):
                continue
            for file in (FILE, COPY):
                commit_json(root / file, kept, sealed=True)
            return [f"{problem}: written again of {name}" for problem in problems]
        raise ValueError(
            f"{problems[0]}: nothing can make it again; bring it back from a backup, or delete it "
            "and forget its documents again"
        )

    def has(self, document: str) -> bool:
        """Whether a document was forgotten."""
        return mark(document) in self.documents

    def has_source(self, source: str) -> bool:
        """Whether a source id was forgotten."""
        return mark(source) in self.sources

    def marks(self) -> set[str]:
        """The hashes of all forgotten documents and of their units."""
        units = (unit for held in self.documents.values() for unit in held.get("units", ()))
        return {*self.documents, *units}

    def keys(self) -> set[bytes]:
        """The keys of the prompts of all forgotten documents."""
        held = (key for held in self.documents.values() for key in held.get("keys", ()))
        return set(map(bytes.fromhex, held))

    def add(self, documents: Mapping[str, Mapping[str, list[str]]], sources: Iterable[str]) -> None:
        """Add documents with the ids and keys to search for; scans skip them from now on.

        Entries of an earlier, interrupted run stay: it saw files that no longer exist.
        """
        for document, held in documents.items():
            added = {
                "sources": set(map(mark, held["sources"])),
                "units": set(map(mark, held["units"])),
                "keys": set(held["keys"]),
            }
            former = self.documents.get(mark(document), {})
            self.documents[mark(document)] = {
                name: sorted(values.union(former.get(name, ()))) for name, values in added.items()
            }
        self.sources = sorted({*self.sources, *map(mark, sources)})
        self.at_s = max(time.time(), _after_all_files(self.path.parent))
        self._write()

    def take_back(self, documents: Iterable[str], sources: Iterable[str]) -> int:
        """Allow documents to be read again, by document id or source id; returns their number.

        Raises UsageError if none of them was forgotten, or if a document would still be skipped
        for a source id that is not given.
        """
        wanted = set(map(mark, sources))
        gone = {*map(mark, documents)} & self.documents.keys()
        gone |= {
            name for name, held in self.documents.items() if not wanted.isdisjoint(held["sources"])
        }
        if not (gone or wanted.intersection(self.sources)):
            raise UsageError("undo: none of these was forgotten here")
        left = {*self.sources} - wanted
        if any(not left.isdisjoint(self.documents[name]["sources"]) for name in gone):
            raise UsageError("undo: it was forgotten by a source id, too; give its source_id=")
        for name in gone:
            del self.documents[name]
        self.sources = sorted(left)
        self._write()
        return len(gone)

    def passed(self, records: Iterable[RawRecord]) -> Iterator[RawRecord]:
        """Yield the records that were not forgotten; counts the others in `skipped`."""
        if not (self.documents or self.sources):
            yield from records
            return
        for record in records:
            names = {mark(record.source_id), mark(record.source)}
            if not names.isdisjoint(self.sources) or mark(record.raw_id) in self.documents:
                self.skipped += 1
            else:
                yield record

    def _write(self) -> None:
        kept = {"documents": self.documents, "sources": self.sources, "at_s": self.at_s}
        for name in (FILE, COPY):  # after a kill in between, the copy is the older version
            commit_json(self.path.with_name(name), kept, sealed=True)


def _after_all_files(root: Path) -> float:
    """A time just after the newest file's."""
    times = [0.0]
    for path in root.rglob("*"):
        with suppress(FileNotFoundError):
            times.append(path.stat().st_mtime)
    return math.nextafter(max(times), math.inf)


def _read(path: Path) -> dict[str, Any]:
    kept = read_json(path)
    whole = isinstance(kept, dict) and (
        isinstance(kept.get("documents", {}), dict)
        and isinstance(kept.get("sources", []), list)
        and isinstance(kept.get("at_s", 0.0), (int, float))
    )
    if not whole:
        raise ValueError(f"{mirror.shown(path)}: not a list of what was forgotten")
    return dict(kept)
