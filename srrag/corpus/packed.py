"""The files in a .gz, .zip or .tar(.gz), read one by one; nothing is written to the disk.

A .gz within them is unpacked too, an archive within them is not. Of an EPUB the chapters are read,
in the order of the book.
"""

from __future__ import annotations

import gzip
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import unquote

from srrag.corpus.parsed import Unparsable
from srrag.corpus.safe_xml import xml_root

MAX_BYTES = 2_000_000_000
"""What all files of an archive may hold together, unpacked."""

_HIDDEN = re.compile(r"(?:^|/)(?:\.(?!\.?/)|__MACOSX/)")
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_BROKEN = (gzip.BadGzipFile, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile)
_BROKEN_OR_FOREIGN = (*_BROKEN, RuntimeError, NotImplementedError, ValueError)


def is_packed(name: str) -> bool:
    """Whether the name is that of a packed file that is read here."""
    return name.lower().endswith((".gz", ".zip", ".epub", *_TAR))


def members(file: Path, most: int) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each file within, and up to `most` + 1 of its bytes.

    Hidden files are passed over. Raises Unparsable where the archive is damaged, has a password, or
    holds over `MAX_BYTES`.
    """
    total = 0
    try:
        for name, stream in _streams(file):
            if _HIDDEN.search(name):
                continue
            if name.lower().endswith(".gz") and not isinstance(stream, gzip.GzipFile):
                shown, body = _unpacked(name, stream, most)
            else:
                shown, body = name, stream.read(most + 1)
            total += len(body)
            if total > MAX_BYTES:
                raise Unparsable("too_large", f"over {MAX_BYTES} bytes unpacked")
            yield shown, body
    except _BROKEN_OR_FOREIGN as error:
        detail = (str(error).splitlines() or [type(error).__name__])[0]
        raise Unparsable("broken_archive", detail) from error


def _unpacked(name: str, stream: IO[bytes], most: int) -> tuple[str, bytes]:
    """Unpack a .gz; a broken one keeps its suffix, which the reader refuses, alone."""
    try:
        return name[: -len(".gz")], gzip.GzipFile(fileobj=stream).read(most + 1)
    except _BROKEN:
        return name, b""


def _streams(file: Path) -> Iterator[tuple[str, IO[bytes] | gzip.GzipFile]]:
    name = file.name.lower()
    if name.endswith(_TAR):
        with tarfile.open(file) as tar:
            for entry in tar:
                if entry.isfile() and (stream := tar.extractfile(entry)) is not None:
                    yield entry.name, stream
    elif name.endswith(".epub"):
        with zipfile.ZipFile(file) as archive:
            for chapter in _chapters(archive):
                with archive.open(chapter) as stream:
                    yield chapter, stream
    elif name.endswith(".zip"):
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                if not info.is_dir():
                    with archive.open(info) as stream:
                        yield info.filename, stream
    else:
        with gzip.open(file) as unpacked:
            yield file.name[: -len(".gz")], unpacked


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
            path = str(PurePosixPath(package).parent / unquote(str(node.get("href"))))
            if path in book.namelist():
                yield path
