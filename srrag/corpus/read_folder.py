"""Read a folder of files: documents, exports of searches, and what holds several, packed or not."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from srrag.core.spec import place_field
from srrag.corpus.citations import export_format, read_citations
from srrag.corpus.packed import is_packed, members
from srrag.corpus.parse_jats import split_articles
from srrag.corpus.parse_text import front_matter_id
from srrag.corpus.parsed import Unparsable
from srrag.corpus.place import is_inside, relative_name, resolve, walk
from srrag.corpus.read_pubmed import cut_articles, is_pubmed, pubmed_record
from srrag.corpus.record import RawRecord, refusal, unique

FORMATS = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".xml": "jats",
    ".nxml": "jats",
    ".pdf": "pdf",
    ".docx": "docx",
}


_BY_CONTENT = ("text", "jats", "")
"""Formats of suffixes that exports of searches share; the first lines say what they are."""


@dataclass(frozen=True, kw_only=True)
class ReadFolder:
    """Documents of a file, or of a folder and its subfolders, in sorted order.

    The id comes from a Markdown file's front matter, else it is the relative path. A copy of a
    file, or a link to it, becomes a refusal, so that one paper counts as one piece of evidence.
    Exports of searches give a document a record, and packed files one for each file in them.

    Links out of the folder, unknown formats, files over `max_file_bytes` (never read) and
    unreadable files become refusals. An empty folder raises ValueError.
    """

    path: str = place_field()
    title: str = place_field("field")
    max_file_bytes: int = 50_000_000

    def scan(self) -> Iterator[RawRecord]:
        """Check the place now, then yield a record for each document."""
        root = resolve(self.path)
        files = [root] if root.is_file() else walk(root)
        if root.is_dir() and next(walk(root), None) is None:
            raise ValueError(f"{self.path}: the folder holds no files")
        return unique((one for file in files for one in self._records(file, root)), copies=False)

    def _records(self, file: Path, root: Path) -> Iterator[RawRecord]:
        name = relative_name(file, root)
        kind = FORMATS.get(file.suffix.lower(), "")
        try:
            refused = _not_read(file, root, name, kind)
            if refused is not None:
                yield refused
            elif is_packed(name):
                for member, body in members(file, self.max_file_bytes):
                    yield from self._documents(f"{name}/{member}", len(body), body)
            else:
                size = file.stat().st_size
                body = b"" if size > self.max_file_bytes else self._bytes(file)
                yield from self._documents(name, max(size, len(body)), body)
        except Unparsable as error:
            yield refusal(name, kind, error.reason, f"{name}: {error.detail}")
        except OSError as error:
            yield refusal(name, kind, "unreadable", f"{name}: {error.strerror}")

    def _documents(self, name: str, size: int, body: bytes) -> Iterator[RawRecord]:
        """Yield the records of one file."""
        suffix = PurePosixPath(name).suffix.lower()
        kind = FORMATS.get(suffix, "")
        export = export_format(body, suffix) if kind in _BY_CONTENT else ""
        if not kind and not export:
            detail = f"{name}: suffix {suffix or 'none'!r}"
            yield refusal(name, "", "unsupported_format", detail)
        elif size > self.max_file_bytes:
            detail = f"{name}: {size} bytes, the cap is {self.max_file_bytes}"
            yield refusal(name, kind, "too_large", detail)
        elif export or kind == "jats":
            several = _cited(name, body, export) if export else _articles(name, body)
            try:
                yield from several
            except Unparsable as error:  # what was read before stays
                yield refusal(name, kind or "json", error.reason, f"{name}: {error.detail}")
        else:
            source_id = front_matter_id(body) if kind == "markdown" else ""
            yield RawRecord(name, source_id or name, kind, body)

    def _bytes(self, file: Path) -> bytes:
        with file.open("rb") as stream:  # the cap also holds for a file that grows
            return stream.read(self.max_file_bytes + 1)


def _not_read(file: Path, root: Path, name: str, kind: str) -> RawRecord | None:
    if not is_inside(file, root):
        return refusal(name, kind, "outside_folder", f"{name}: leads out of the folder")
    if not stat.S_ISREG(file.stat().st_mode):
        return refusal(name, kind, "not_a_file", f"{name}: not a regular file")
    if file.is_symlink():
        detail = f"{name}: a link to {relative_name(file.resolve(), root)}"
        return refusal(name, kind, "duplicate_content", detail)
    return None


def _cited(name: str, body: bytes, export: str) -> Iterator[RawRecord]:
    """Yield the records of an export; exports may overlap, so a record's id is its PMID."""
    for number, record in enumerate(read_citations(body, export), 1):
        source = f"{name}:{number}"
        source_id = record.get("pmid") or source
        if not record.get("text"):
            detail = f"{source}: the record has no abstract"
            yield refusal(source, "json", "no_text", detail, source_id)
            continue
        packed = json.dumps({**record, "export": name}, sort_keys=True).encode("ascii")
        yield RawRecord(source, source_id, "json", packed)


def _articles(name: str, body: bytes) -> Iterator[RawRecord]:
    """Yield the articles of a set of JATS or PubMed articles as records "FILE:NUMBER"."""
    if is_pubmed(body):
        for number, each in enumerate(cut_articles([body], len(body)), 1):
            yield pubmed_record(f"{name}:{number}", each)
        return
    try:
        bodies = split_articles(body)
    except Unparsable:  # its parser says why
        bodies = []
    for number, each in enumerate(bodies, 1):
        yield RawRecord(f"{name}:{number}", f"{name}:{number}", "jats", each)
    if not bodies:
        yield RawRecord(name, name, "jats", body)
