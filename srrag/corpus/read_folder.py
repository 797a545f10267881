"""Read a folder of files: documents, exports of searches, and what holds several, packed or not."""

from __future__ import annotations

import gzip
import io
import json
import posixpath
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import unquote

from srrag.core.spec import place_field
from srrag.corpus.citations import export_format, read_citations
from srrag.corpus.notices import Notice, notices_of, without_text
from srrag.corpus.parse_jats import split_articles
from srrag.corpus.parse_text import front_matter_id
from srrag.corpus.parsed import Unparsable, xml_root
from srrag.corpus.read_pubmed import cut_articles, is_pubmed, pubmed_record
from srrag.corpus.record import RawRecord, is_inside, refusal, relative_name, resolve, unique, walk

MAX_BYTES = 2_000_000_000
"""What all files of an archive may hold together, unpacked."""

_HIDDEN = re.compile(r"(?:^|/)(?:\.(?!\.?/)|__MACOSX/)")
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_BROKEN = (gzip.BadGzipFile, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile)
_BROKEN_OR_FOREIGN = (*_BROKEN, RuntimeError, NotImplementedError, ValueError)


def is_packed(name: str) -> bool:
    """Whether the name is that of a packed file that is read here."""
    return name.lower().endswith((".gz", ".zip", ".epub", *_TAR))


def members(file: Path, most: int) -> Iterator[tuple[str, bytes | Unparsable]]:
    """Yield the name of each file within, and up to `most` + 1 of its bytes.

    Hidden files are passed over, and of one name all but the last. A damaged file of a .zip, or one
    with a password, gives the reason. Raises Unparsable where the archive itself is damaged or
    holds over `MAX_BYTES`.
    """
    total = 0
    alone = file.name.lower().endswith((".zip", ".epub"))  # these hold each file by itself
    try:
        for name, opened in _streams(file):
            if _HIDDEN.search(name):
                continue
            try:
                shown, body = _read(name, opened, most)
            except _BROKEN_OR_FOREIGN as error:
                if not alone:
                    raise
                yield name, _damaged(error)
                continue
            total += len(body)
            if total > MAX_BYTES:
                raise Unparsable("too_large", f"over {MAX_BYTES} bytes unpacked")
            yield shown, body
    except _BROKEN_OR_FOREIGN as error:
        raise _damaged(error) from error


_Opened = Callable[[], AbstractContextManager[IO[bytes] | gzip.GzipFile]]


def _read(name: str, opened: _Opened, most: int) -> tuple[str, bytes]:
    with opened() as stream:
        if name.lower().endswith(".gz") and not isinstance(stream, gzip.GzipFile):
            return _unpacked(name, stream, most)
        return name, stream.read(most + 1)


def _damaged(error: Exception) -> Unparsable:
    detail = (str(error).splitlines() or [type(error).__name__])[0]
    return Unparsable("broken_archive", detail)


def _unpacked(name: str, stream: IO[bytes], most: int) -> tuple[str, bytes]:
    """Unpack a .gz; a broken one keeps its suffix, which the reader refuses, alone."""
    try:
        return name[: -len(".gz")], gzip.GzipFile(fileobj=stream).read(most + 1)
    except _BROKEN:
        return name, b""


def _streams(file: Path) -> Iterator[tuple[str, _Opened]]:
    """Yield the name of each file within, and what opens it."""
    name = file.name.lower()
    if name.endswith(_TAR):
        last = _last(file)
        with tarfile.open(file) as tar:
            for entry in tar:
                if entry.isfile() and last.get(entry.name, entry.offset) == entry.offset:
                    yield entry.name, partial(_of_tar, tar, entry)
    elif name.endswith(".epub"):
        with zipfile.ZipFile(file) as archive:
            held = {*archive.namelist()}
            for chapter in _chapters(archive):  # one that is not there is an empty page
                yield chapter, partial(archive.open, chapter) if chapter in held else io.BytesIO
    elif name.endswith(".zip"):
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():  # of one name the last is the one that it opens
                if not info.is_dir() and info is archive.getinfo(info.filename):
                    yield info.filename, partial(archive.open, info)
    else:
        yield file.name[: -len(".gz")], partial(gzip.GzipFile, file)


def _last(file: Path) -> dict[str, int]:
    """Where the last file of each name begins: "tar -r" puts a newer version behind the older.

    Of a damaged archive it is the last before the damage.
    """
    last: dict[str, int] = {}
    with suppress(*_BROKEN_OR_FOREIGN), tarfile.open(file) as tar:
        for entry in tar:
            if entry.isfile():
                last[entry.name] = entry.offset
    return last


def _of_tar(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    return tar.extractfile(entry) or io.BytesIO()


def _chapters(book: zipfile.ZipFile) -> Iterator[str]:
    """The names of the files that a book is read from, in its order (EPUB 3.3, section 5.7)."""
    try:
        found = xml_root(book.read("META-INF/container.xml")).find(".//{*}rootfile[@full-path]")
        package = "" if found is None else str(found.get("full-path"))
        root = xml_root(book.read(package))
    except KeyError as error:
        raise Unparsable("broken_archive", "no EPUB: it tells no order of chapters") from error
    files = {node.get("id"): node for node in root.iterfind(".//{*}manifest/{*}item[@href]")}
    for item in root.iterfind(".//{*}spine/{*}itemref[@idref]"):
        node = files.get(item.get("idref"))
        if node is not None and "nav" not in (node.get("properties") or "").split():
            place = PurePosixPath(package).parent / unquote(str(node.get("href")))
            yield posixpath.normpath(place)


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
    A later record of a PMID is none, but what it says of its paper counts.

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
        records = (one for file in files for one in self._records(file, root))
        return unique(records, copies=False, notice=_Notices())

    def _records(self, file: Path, root: Path) -> Iterator[RawRecord]:
        name = relative_name(file, root)
        kind = FORMATS.get(file.suffix.lower(), "")
        try:
            refused = _not_read(file, root, name, kind)
            if refused is not None:
                yield refused
            elif is_packed(name):
                for member, body in members(file, self.max_file_bytes):
                    yield from self._member(f"{name}/{member}", body)
            else:
                size = file.stat().st_size
                body = b"" if size > self.max_file_bytes else self._bytes(file)
                yield from self._documents(name, max(size, len(body)), body)
        except Unparsable as error:
            yield refusal(name, kind, error.reason, f"{name}: {error.detail}")
        except OSError as error:
            yield refusal(name, kind, "unreadable", f"{name}: {error.strerror}")

    def _member(self, name: str, body: bytes | Unparsable) -> Iterator[RawRecord]:
        if isinstance(body, Unparsable):
            kind = FORMATS.get(PurePosixPath(name).suffix.lower(), "")
            yield refusal(name, kind, body.reason, f"{name}: {body.detail}")
        else:
            yield from self._documents(name, len(body), body)

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


class _Notices:
    """Keeps what records say of papers where they are no documents, each statement once.

    A later export of a search may know that a paper was retracted which an earlier one holds.
    """

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._said: dict[str, set[Notice]] = {}

    def __call__(self, record: RawRecord) -> RawRecord | None:
        """Return the record without text, None where it says nothing new of its id."""
        if record.format not in ("json", "pubmed"):  # of the others each file has its own id
            return None
        told = {each for each in notices_of(record.format, record.body) if each.standing != "ok"}
        if told <= self._said.get(record.source_id, set()):
            return None
        self._said.setdefault(record.source_id, set()).update(told)
        body = without_text(record.format, record.body)
        return replace(record, body=body, reason="", detail="")


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
        # Copies of a paper are told by its ids (BuildStanding); without one, by equal content.
        told = {**record, "export": name} if record.keys() & {"pmid", "pmcid", "doi"} else record
        packed = json.dumps(told, sort_keys=True).encode("ascii")
        if record.get("text"):
            yield RawRecord(source, source_id, "json", packed)
        else:
            detail = f"{source}: the record has no abstract"
            yield RawRecord(source, source_id, "json", packed, "no_text", detail)


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
