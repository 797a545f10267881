"""Read PubMed's baseline and update files, one document for each article."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from srrag.corpus.place import is_inside, relative_name, resolve, walk
from srrag.corpus.record import RawRecord, refusal, unique
from srrag.spec import place_field

_OPEN = re.compile(rb"<PubmedArticle(?=[\s>])")
_CLOSE = b"</PubmedArticle>"
_PMID = re.compile(rb"<PMID\b[^<>]{0,40}>\s{0,9}(\d{1,12})\s{0,9}</PMID>")
_BLOCK_BYTES = 1 << 20
_RATIO_FLOOR_BYTES = 1 << 24


Readable = io.BufferedReader | gzip.GzipFile


class _Refused(Exception):
    """Stops the reading of a file; the articles read so far stay."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class ReadPubmed:
    """Articles of .xml.gz and .xml files: one file, or a folder and its subfolders.

    The reader only cuts files at <PubmedArticle>, in blocks, and parses nothing, so a broken
    article costs only itself and no entity is ever expanded. Decompression stops with a refusal at
    `max_file_bytes` out, or at `max_ratio` times the bytes read once 16 MiB are out. Files are read
    in descending order of name, because PubMed's later files revise earlier articles and the first
    record of an id is kept.
    """

    path: str = place_field()
    max_article_bytes: int = 10_000_000
    max_file_bytes: int = 2_000_000_000
    max_ratio: int = 100

    def scan(self) -> Iterator[RawRecord]:
        """Check the path now, then yield one record for each article."""
        root = resolve(self.path)
        entries = [root] if root.is_file() else list(walk(root))
        files = [file for file in entries if file.name.endswith((".xml", ".xml.gz"))]
        if not files:
            raise ValueError(f"{self.path}: no .xml or .xml.gz file")
        return unique(self._records(sorted(files, reverse=True), root))

    def _records(self, files: list[Path], root: Path) -> Iterator[RawRecord]:
        for file in files:
            name = relative_name(file, root)
            number = 0
            try:
                if root.is_dir() and not is_inside(file, root):
                    raise _Refused("outside_folder", "leads out of the folder")
                for body in self._articles(file):
                    number += 1
                    yield _record(f"{name}:{number}", body)
            except _Refused as error:
                detail = f"{name}: {error}, {number} articles read before"
                yield refusal(name, "pubmed", error.reason, detail)

    def _articles(self, file: Path) -> Iterator[bytes]:
        buffer = b""
        for block in self._blocks(file):
            buffer += block
            at = 0
            while (start := _OPEN.search(buffer, at)) and (
                end := buffer.find(_CLOSE, start.end())
            ) >= 0:
                # An article that is never closed ends where the next one opens.
                later = _OPEN.search(buffer, start.end(), end)
                at = later.start() if later else end + len(_CLOSE)
                yield buffer[start.start() : at]
            buffer = buffer[start.start() :] if start else buffer[at:][-len(_CLOSE) :]
            if len(buffer) > self.max_article_bytes:
                raise _Refused("too_large", f"an article of over {self.max_article_bytes} bytes")
        if _OPEN.search(buffer):
            raise _Refused("broken_xml", "the file ends within an article")

    def _blocks(self, file: Path) -> Iterator[bytes]:
        """Yield the decompressed bytes, checked against the caps."""
        out = 0
        try:
            with file.open("rb") as packed:
                is_gzip = file.name.endswith(".gz")
                stream: Readable = gzip.GzipFile(fileobj=packed) if is_gzip else packed
                while block := stream.read1(_BLOCK_BYTES):  # keep the data before a broken end
                    out += len(block)
                    if out > self.max_file_bytes:
                        raise _Refused("too_large", f"over {self.max_file_bytes} bytes of XML")
                    if out > max(_RATIO_FLOOR_BYTES, self.max_ratio * packed.tell()):
                        raise _Refused("gzip_bomb", f"expands over {self.max_ratio} times")
                    yield block
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise _Refused("broken_gzip", f"{error}") from error
        except OSError as error:
            raise _Refused("unreadable", f"{error.strerror}") from error


def _record(source: str, body: bytes) -> RawRecord:
    pmid = _PMID.search(body)
    if pmid is None:
        return refusal(source, "pubmed", "no_id", f"{source}: the article has no PMID")
    return RawRecord(source, pmid[1].decode("ascii"), "pubmed", body)
