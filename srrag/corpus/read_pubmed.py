"""PubMed's articles: its baseline and update files, one document for each article, and its XML."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from lxml import etree

from srrag.core.spec import place_field
from srrag.corpus.inline_xml import inline_text
from srrag.corpus.parsed import Metadata, Parsed, Unparsable, xml_root, year_of
from srrag.corpus.record import RawRecord, is_inside, refusal, relative_name, resolve, unique, walk

_OPEN = re.compile(rb"<(PubmedArticle|PubmedBookArticle)(?=[\s>])")
_DELETED_OPEN = b"<DeleteCitation"
_DELETED_CLOSE = b"</DeleteCitation>"
_PMID = re.compile(rb"<PMID\b[^<>]{0,40}>\s{0,9}(\d{1,12})\s{0,9}</PMID>")
_READ, _CHECKSUMS = (".xml", ".xml.gz"), (".md5",)
_LONGEST_TAG = len(b"</PubmedBookArticle>")
_BLOCK_BYTES = 1 << 20
_RATIO_FLOOR_BYTES = 1 << 24


Readable = io.BufferedReader | gzip.GzipFile


class _Unreadable(Unparsable):
    """Stops reading a file whose bytes are too many or broken."""


@dataclass(frozen=True, kw_only=True)
class ReadPubmed:
    """Articles of .xml.gz and .xml files: one file, or a folder and its subfolders.

    The reader only cuts files at <PubmedArticle> and <PubmedBookArticle>, in blocks, and parses
    nothing, so a broken article costs only itself and no entity is ever expanded. A file
    without either, or of another suffix than these and .md5, becomes a refusal. Decompression
    stops with a refusal at `max_file_bytes` out, or at `max_ratio` times the bytes read once 16
    MiB are out. Files are read in descending order of name, because PubMed's later files revise
    earlier articles and the first record of an id is kept. An article that DeleteCitation
    names, in its own file or a later one, becomes a refusal "deleted"; each file is passed over
    once to find these lists.
    """

    path: str = place_field()
    title: str = place_field("field")
    max_article_bytes: int = 10_000_000
    max_file_bytes: int = 2_000_000_000
    max_ratio: int = 100

    def scan(self) -> Iterator[RawRecord]:
        """Check the path now, then yield one record for each article."""
        root = resolve(self.path)
        entries = [root] if root.is_file() else list(walk(root))
        files = [file for file in entries if file.name.endswith(_READ)]
        if not files:
            raise ValueError(f"{self.path}: no .xml or .xml.gz file")
        others = [file for file in entries if not file.name.endswith((*_READ, *_CHECKSUMS))]
        files.sort(key=lambda file: (file.name, file), reverse=True)
        refused = (_other(relative_name(file, root)) for file in others)
        return unique(chain(self._records(files, root), refused))

    def _records(self, files: list[Path], root: Path) -> Iterator[RawRecord]:
        gone: dict[str, str] = {}
        for file in files:
            name = relative_name(file, root)
            number = 0
            try:
                if root.is_dir() and not is_inside(file, root):
                    raise Unparsable("outside_folder", "leads out of the folder")
                deleted = [*self._deleted(file)]
                for pmid in deleted:
                    gone.setdefault(pmid, name)
                for body in cut_articles(self._blocks(file), self.max_article_bytes):
                    number += 1
                    record = pubmed_record(f"{name}:{number}", body)
                    deleted_in = gone.get(record.source_id, "")
                    yield _without(record, deleted_in) if deleted_in else record
                if not number and not deleted:
                    raise Unparsable("unsupported_format", "holds no article of PubMed")
            except Unparsable as error:
                detail = f"{name}: {error.detail}, {number} articles read before"
                yield refusal(name, "pubmed", error.reason, detail)

    def _deleted(self, file: Path) -> Iterator[str]:
        """Yield the PMIDs of the DeleteCitation lists; a broken end is reported with the articles.

        Later files are read first, so an article that was published again after its deletion stays.
        """
        buffer = b""
        with suppress(_Unreadable):
            for block in self._blocks(file):
                buffer += block
                while (start := buffer.find(_DELETED_OPEN)) >= 0 and (
                    end := buffer.find(_DELETED_CLOSE, start)
                ) >= 0:
                    yield from _pmids(buffer[start:end])
                    buffer = buffer[end + len(_DELETED_CLOSE) :]
                buffer = buffer[start:] if start >= 0 else buffer[-len(_DELETED_OPEN) :]
                if len(buffer) > self.max_article_bytes:
                    detail = f"a DeleteCitation of over {self.max_article_bytes} bytes"
                    raise Unparsable("too_large", detail)
        if buffer.startswith(_DELETED_OPEN):
            yield from _pmids(buffer)

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
                        raise _Unreadable("too_large", f"over {self.max_file_bytes} bytes of XML")
                    if out > max(_RATIO_FLOOR_BYTES, self.max_ratio * packed.tell()):
                        raise _Unreadable("gzip_bomb", f"expands over {self.max_ratio} times")
                    yield block
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise _Unreadable("broken_gzip", f"{error}") from error
        except OSError as error:
            raise _Unreadable("unreadable", f"{error.strerror}") from error


def is_pubmed(body: bytes) -> bool:
    """Whether a file holds an article as PubMed writes it."""
    return _OPEN.search(body) is not None


def cut_articles(blocks: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    """Yield each <PubmedArticle> and <PubmedBookArticle>; raises Unparsable at a broken end."""
    buffer = b""
    for block in blocks:
        buffer += block
        at = 0
        while (start := _OPEN.search(buffer, at)) and (
            end := buffer.find(b"</" + start[1] + b">", start.end())
        ) >= 0:
            # An article that is never closed ends where the next one opens.
            later = _OPEN.search(buffer, start.end(), end)
            at = later.start() if later else end + len(start[1]) + len(b"</>")
            yield buffer[start.start() : at]
        buffer = buffer[start.start() :] if start else buffer[at:][-_LONGEST_TAG:]
        if len(buffer) > max_bytes:
            raise Unparsable("too_large", f"an article of over {max_bytes} bytes")
    if _OPEN.search(buffer):
        raise Unparsable("broken_xml", "the file ends within an article")


def _pmids(text: bytes) -> Iterator[str]:
    return (found[1].decode("ascii") for found in _PMID.finditer(text))


def _other(name: str) -> RawRecord:
    detail = f"{name}: no .xml or .xml.gz; corpus=folder reads other formats"
    return refusal(name, "", "unsupported_format", detail)


def _without(record: RawRecord, deleted_in: str) -> RawRecord:
    """Make the refusal of a deleted article; it contains none of its text."""
    detail = f"{record.source}: PMID {record.source_id} was deleted by {deleted_in}"
    return replace(record, body=b"", reason="deleted", detail=detail)


def pubmed_record(source: str, body: bytes) -> RawRecord:
    """Make the record of an article, a refusal where it has no PMID."""
    pmid = _PMID.search(body)
    if pmid is None:
        return refusal(source, "pubmed", "no_id", f"{source}: the article has no PMID")
    return RawRecord(source, pmid[1].decode("ascii"), "pubmed", body)


_YEARS = (
    ".//Article/Journal/JournalIssue/PubDate/Year",
    ".//Article/Journal/JournalIssue/PubDate/MedlineDate",
    ".//Article/ArticleDate/Year",
    ".//BookDocument/ContributionDate/Year",
    ".//BookDocument/Book/PubDate/Year",
    ".//PubmedData/History/PubMedPubDate[@PubStatus='pubmed']/Year",
)


def parse_pubmed(body: bytes) -> Parsed:
    """Parse an article; the element with the copyright line is left out.

    Raises Unparsable("no_text") for an article without an abstract.
    """
    root = xml_root(body)
    abstract = root.find(".//Abstract")
    if abstract is None:  # as of journals whose abstracts others wrote
        others = root.findall(".//OtherAbstract")
        english = (each for each in others if each.get("Language", "eng") == "eng")
        abstract = next(english, next(iter(others), None))
    parts = [] if abstract is None else [_labelled(node) for node in abstract.iter("AbstractText")]
    text = "\n\n".join(part for part in parts if part)
    if not text:
        raise Unparsable("no_text", "the article has no abstract")
    return Parsed(_title(root), text, _metadata(root))


def _labelled(node: etree._Element) -> str:
    text = inline_text(node)
    label = (node.get("Label") or "").strip()
    if not text or not label or label.upper() == "UNLABELLED":
        return text
    return f"## {label.capitalize() if label.isupper() else label}\n\n{text}"


def _title(root: etree._Element) -> str:
    nodes = (root.find(path) for path in (".//ArticleTitle", ".//BookDocument/Book/BookTitle"))
    title = next((inline_text(node) for node in nodes if node is not None), "")
    bare = title.removesuffix(".")
    # PubMed puts the titles it has translated in brackets.
    return bare[1:-1] if bare.startswith("[") and bare.endswith("]") else title


def _metadata(root: etree._Element) -> Metadata:
    years = (year_of(root.findtext(path) or "") for path in _YEARS)
    listed = {
        "publication_types": _texts(root, ".//PublicationType"),
        "mesh": _texts(root, ".//MeshHeadingList/MeshHeading/DescriptorName"),
        "keywords": _texts(root, ".//KeywordList/Keyword"),
        "language": _texts(root, ".//Language"),
    }
    single = {
        "pmid": root.findtext("./*/PMID"),
        "journal": root.findtext(".//Article/Journal/Title") or root.findtext(".//Book/BookTitle"),
        "doi": root.findtext(".//PubmedData/ArticleIdList/ArticleId[@IdType='doi']")
        or root.findtext(".//Article/ELocationID[@EIdType='doi']"),
        "pmcid": root.findtext(".//PubmedData/ArticleIdList/ArticleId[@IdType='pmc']"),
    }
    metadata: Metadata = {"encoding": "utf-8", "year": next((y for y in years if y), 0)}
    metadata.update({key: items for key, items in listed.items() if items})
    metadata.update({key: value.strip() for key, value in single.items() if value})
    return metadata


def _texts(root: etree._Element, path: str) -> list[str]:
    return [text for node in root.iterfind(path) if (text := inline_text(node))]
