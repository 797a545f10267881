"""Read JSON lines: documents under configurable field names, or passages in the BEIR layout."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srrag.core.spec import place_field
from srrag.corpus.record import (
    Line,
    RawRecord,
    folder,
    json_lines,
    plain_id,
    refusal,
    relative_name,
    resolve,
    unique,
)

_PLAIN = (
    "grade",
    "year",
    "pmid",
    "pmcid",
    "doi",
    "condition",
    "journal",
    "license",
    "article_type",
)
# The place of a document in a book: chapters group documents, `order` sorts them.
_PLACE = {
    "book": ("book",),
    "chapter": ("chapter", "chapter_no"),
    "chapter_title": ("chapter_title",),
    "order": ("order", "section_no"),
}
_SHOWN_KEYS = 20
_MAPPED = {name: name for name in ("id", "text", "grade", "year", "mesh", "publication_types")} | {
    "title": "title_keys"
}
"""The parser's name of a value, and the field that lists the keys to look for it."""


@dataclass(frozen=True, kw_only=True)
class ReadJsonl:
    """Documents of one .jsonl file, or of all in a folder.

    Each field lists the keys to try; the first present key wins. `id` also identifies duplicates; a
    line without an id takes its place as id. `title` says how titles are searched, `title_keys`
    where they are. `text` may be a string (plain or Markdown) or a list of {heading, text}. A
    document's place in a book (`book`, `chapter` or `chapter_no`, `chapter_title`, `order` or
    `section_no`) goes into its metadata. A broken line becomes a refusal that names file:line.
    """

    path: str = place_field()
    title: str | tuple[str, ...] = place_field("field")
    id: tuple[str, ...] = ("id", "_id", "pmid", "pmcid")
    text: tuple[str, ...] = ("text", "markdown", "sections", "abstract")
    title_keys: tuple[str, ...] = ("title",)
    grade: tuple[str, ...] = ("grade", "evidence_grade")
    year: tuple[str, ...] = ("year",)
    mesh: tuple[str, ...] = ("mesh", "mesh_terms")
    publication_types: tuple[str, ...] = ("publication_types", "publication_type")
    max_line_bytes: int = 50_000_000

    def __post_init__(self) -> None:
        """Raise ValueError if a field is a bare string instead of a list of keys."""
        if not isinstance(self.title, str):
            raise ValueError("title: field, text or none; the keys of titles are title_keys=[…]")
        for name in _MAPPED.values():
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name}: a list of keys is wanted, as in {name}: [body]")

    def scan(self) -> Iterator[RawRecord]:
        """Check the path now, then yield one record for each line."""
        found = resolve(self.path)
        files = [found] if found.is_file() else sorted(found.glob("*.jsonl"))
        if not files:
            raise ValueError(f"{self.path}: the folder holds no .jsonl file")
        if not any(file.stat().st_size for file in files):
            raise ValueError(f"{self.path}: the file is empty")
        return unique(self._records(files, found))

    def _records(self, files: list[Path], root: Path) -> Iterator[RawRecord]:
        for file in files:
            name = relative_name(file, root)
            try:
                for line in json_lines(file, self.max_line_bytes):
                    yield self._record(line, f"{name}:{line.number}")
            except OSError as error:
                yield refusal(name, "json", "unreadable", f"{name}: {error.strerror}")

    def _record(self, line: Line, source: str) -> RawRecord:
        if line.reason:
            return refusal(source, "json", line.reason, f"{source}: {line.detail}")
        source_id = plain_id(_first(line.record, self.id)) or source
        if _first(line.record, self.text) is None:
            detail = f"{source}: {_no_text(line.record, self.text)}"
            return refusal(source, "json", "no_text", detail, source_id)
        body = json.dumps(self._mapped(line.record), sort_keys=True).encode("ascii")
        return RawRecord(source, source_id, "json", body)

    def _mapped(self, record: dict[str, Any]) -> dict[str, Any]:
        """Rename the record's keys to the parser's names."""
        mapped = {key: record[key] for key in _PLAIN if record.get(key) not in (None, "")}
        for name, field in _MAPPED.items():
            value = None if name == "id" else _first(record, getattr(self, field))
            if value is not None:
                mapped[name] = value
        places = ((name, _first(record, keys)) for name, keys in _PLACE.items())
        return mapped | {name: value for name, value in places if value is not None}


def _no_text(record: dict[str, Any], wanted: tuple[str, ...]) -> str:
    """The keys that a line has, the keys wanted, and the override that maps one to the other."""
    seen = ", ".join(sorted(map(str, record))[:_SHOWN_KEYS]) or "none"
    longest = max(record, key=lambda key: len(str(record[key])), default="body")
    return (
        f"no text under the keys {', '.join(wanted)}; the line has the keys {seen}; "
        f"name yours, as in corpus.text=[{longest}]"
    )


def _first(record: dict[str, Any], keys: tuple[str, ...]) -> Any:
    return next((record[key] for key in keys if record.get(key) not in (None, "", [])), None)


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
