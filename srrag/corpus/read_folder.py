"""Read a folder of files, one document for each file."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from srrag.core.spec import place_field
from srrag.corpus.parse_jats import split_articles
from srrag.corpus.parse_text import front_matter_id
from srrag.corpus.parsed import Unparsable
from srrag.corpus.place import folder, is_inside, relative_name, walk
from srrag.corpus.record import RawRecord, refusal, unique

FORMATS = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "text",
    ".html": "html",
    ".htm": "html",
    ".xml": "jats",
    ".nxml": "jats",
    ".pdf": "pdf",
    ".docx": "docx",
}


@dataclass(frozen=True, kw_only=True)
class ReadFolder:
    """Documents of a folder and its subfolders, in sorted order.

    The id comes from a Markdown file's front matter, else it is the relative path. A copy of a
    file, or a link to it, becomes a refusal, so that one paper counts as one piece of evidence.

    Links out of the folder, unknown suffixes, files over `max_file_bytes` (never read) and
    unreadable files become refusals. An empty folder raises ValueError.
    """

    path: str = place_field()
    title: str = place_field("field")
    max_file_bytes: int = 50_000_000

    def scan(self) -> Iterator[RawRecord]:
        """Check the folder now, then yield a record for each file, and each article of a set."""
        root = folder(self.path)
        if next(walk(root), None) is None:
            raise ValueError(f"{self.path}: the folder holds no files")
        records = (self._record(file, root) for file in walk(root))
        return unique((one for each in records for one in _articles(each)), copies=False)

    def _record(self, file: Path, root: Path) -> RawRecord:
        name = relative_name(file, root)
        kind = FORMATS.get(file.suffix.lower(), "")
        if not is_inside(file, root):
            return refusal(name, kind, "outside_folder", f"{name}: leads out of the folder")
        try:
            status = file.stat()
            if not stat.S_ISREG(status.st_mode):
                return refusal(name, kind, "not_a_file", f"{name}: not a regular file")
            if file.is_symlink():
                detail = f"{name}: a link to {relative_name(file.resolve(), root)}"
                return refusal(name, kind, "duplicate_content", detail)
            if not kind:
                suffix = file.suffix or "none"
                return refusal(name, "", "unsupported_format", f"{name}: suffix {suffix!r}")
            body = b"" if status.st_size > self.max_file_bytes else self._bytes(file)
        except OSError as error:
            return refusal(name, kind, "unreadable", f"{name}: {error.strerror}")
        if status.st_size > self.max_file_bytes or len(body) > self.max_file_bytes:
            detail = (
                f"{name}: {max(status.st_size, len(body))} bytes, the cap is {self.max_file_bytes}"
            )
            return refusal(name, kind, "too_large", detail)
        source_id = front_matter_id(body) if kind == "markdown" else ""
        return RawRecord(name, source_id or name, kind, body)

    def _bytes(self, file: Path) -> bytes:
        with file.open("rb") as stream:  # the cap also holds for a file that grows
            return stream.read(self.max_file_bytes + 1)


def _articles(record: RawRecord) -> Iterator[RawRecord]:
    """Yield the articles of a set of JATS articles as records "FILE:NUMBER", else the record."""
    try:
        bodies = split_articles(record.body) if record.format == "jats" else []
    except Unparsable:  # its parser says why
        bodies = []
    for number, body in enumerate(bodies, 1):
        name = f"{record.source}:{number}"
        yield RawRecord(name, name, record.format, body)
    if not bodies:
        yield record
