"""The standing of papers: what records state of themselves and of others, and what a list states.

A list is a CSV with the columns of Retraction Watch, whose data Crossref publishes
(https://gitlab.com/crossref/retraction-watch-data), or with ids.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from lxml import etree

from srrag.core.errors import UsageError
from srrag.core.schema import NOTICES
from srrag.core.spec import content_id
from srrag.core.standing import ARTICLE_TYPES, COPY, OF_ALL_TEXTS, STANDINGS, of_types
from srrag.core.step import Function, Place, Step
from srrag.corpus.inline_xml import inline_text
from srrag.corpus.parsed import Unparsable, doi_of, local_name, pmcid_of, pmid_of, xml_root
from srrag.storage.atomic_write import commit_json
from srrag.storage.store import Store


@dataclass(frozen=True)
class Notice:
    """One statement: the paper named by `about` has a standing, as `link` says.

    `about` and `link` are ids as "pmid:1", "doi:10.1/x" or "pmcid:PMC1"; `about` is "" for the
    record itself, `link` "" where the other paper is not named.
    """

    about: str
    standing: str
    link: str
    said_by: str


# PubMed's RefType: the standing of the record itself, and that of the paper it names ("" none).
# https://www.nlm.nih.gov/bsd/licensee/elements_descriptions.html#commentscorrections
_REFERENCES: dict[str, tuple[str, str]] = {
    "RetractionIn": ("retracted", "retraction_notice"),
    "RetractionOf": ("retraction_notice", "retracted"),
    "PartialRetractionIn": ("concern", ""),
    "PartialRetractionOf": ("retraction_notice", "concern"),
    "RetractedandRepublishedIn": ("retracted", ""),
    "RetractedandRepublishedFrom": ("ok", "retracted"),
    "ExpressionOfConcernIn": ("concern", "concern_notice"),
    "ExpressionOfConcernFor": ("concern_notice", "concern"),
    "ErratumIn": ("corrected", ""),
    "ErratumFor": ("correction_notice", "corrected"),
    "CorrectedandRepublishedIn": ("superseded", ""),
    "CorrectedandRepublishedFrom": ("ok", "superseded"),
    "UpdateIn": ("superseded", ""),
    "UpdateOf": ("ok", "superseded"),
    "CommentOn": ("ok", ""),
}
# JATS: `related-article-type`, of which the values are those of JATS4R (https://jats4r.niso.org/)
# and those that PMC's files use.
_RELATED: dict[str, tuple[str, str]] = {
    "retracted-article": ("retraction_notice", "retracted"),
    "retraction-forward": ("retracted", ""),
    "retraction": ("retracted", ""),
    "partial-retraction": ("concern", ""),
    "partially-retracted-article": ("retraction_notice", "concern"),
    "object-of-concern": ("concern_notice", "concern"),
    "expression-of-concern": ("concern", ""),
    "concern-forward": ("concern", ""),
    "corrected-article": ("correction_notice", "corrected"),
    "correction-forward": ("corrected", ""),
    "correction": ("corrected", ""),
    "updated-article": ("ok", "superseded"),
    "update": ("superseded", ""),
    "republication": ("superseded", ""),
    "republished-article": ("ok", "superseded"),
    "preprint": ("ok", "superseded"),
    "commentary-article": ("ok", ""),
}
_XLINK = "{http://www.w3.org/1999/xlink}href"
_ANY = re.compile(
    rb"CommentsCorrections\b|related-article\b|[Rr]etract|[Cc]oncern|[Pp]reprint|Erratum"
    rb"|article-type=.correction|\"notices\": \["
)
_TEXT = re.compile(
    rb"<(Abstract|OtherAbstract|ArticleTitle|VernacularTitle|AuthorList)\b[^>]*(?<!/)>.*?</\1>",
    re.DOTALL,
)


def may_speak(body: bytes) -> bool:
    """Whether a body contains a word of any notice; most bodies do not, and need no parsing."""
    return _ANY.search(body) is not None


def pubmed_notices(body: bytes) -> list[Notice]:
    """Read publication types and CommentsCorrections of a <PubmedArticle>.

    What it says of itself is said of its ids too (`_of_ids`), since the paper may be here from
    another file.
    """
    root = xml_root(body)
    path = ".//Article/PublicationTypeList/PublicationType"
    types = [inline_text(node) for node in root.iterfind(path)]
    found = [Notice("", standing, "", "type") for standing in of_types(types)]
    for node in root.iterfind(".//CommentsCorrectionsList/CommentsCorrections"):
        found += _referred(node.get("RefType") or "", node.findtext("PMID") or "")
    is_document = root.find(".//AbstractText") is not None
    return found + _of_ids(found, list(_own_ids(root)), is_document)


def _referred(kind: str, told: str) -> Iterator[Notice]:
    own, other = _REFERENCES.get(kind, ("", ""))
    pmid = pmid_of(told)
    return _pair(own, other, f"pmid:{pmid}" if pmid else "", "pubmed")


def _of_ids(found: Sequence[Notice], own_ids: Sequence[str], is_document: bool) -> list[Notice]:
    """What a record says of itself, said of its ids; a document says only that of its paper.

    `BuildStanding` carries that to documents of its PMID.
    """
    said = [each for each in found if not each.about and each.standing != "ok"]
    if is_document:
        said = [each for each in said if each.standing in OF_ALL_TEXTS]
        said = [each for each in said if each.link] or said
        own_ids = [about for about in own_ids if not about.startswith("pmid:")]
    return [replace(each, about=about) for each in said for about in own_ids]


def _own_ids(root: etree._Element) -> Iterator[str]:
    ids = "./PubmedData/ArticleIdList/ArticleId[@IdType='{}']"
    for name, path, form in (
        ("pmid", "./MedlineCitation/PMID", pmid_of),
        ("doi", ids.format("doi"), doi_of),
        ("doi", ".//Article/ELocationID[@EIdType='doi']", doi_of),
        ("pmcid", ids.format("pmc"), pmcid_of),
    ):
        if plain := form(root.findtext(path) or ""):
            yield f"{name}:{plain}"


def jats_notices(body: bytes) -> list[Notice]:
    """Read the article type and the related articles of a JATS article."""
    root = xml_root(body)
    article = root if local_name(root) == "article" else root.find(".//{*}article")
    if article is None:
        return []
    kind = (article.get("article-type") or "").lower()
    found = [Notice("", ARTICLE_TYPES[kind], "", "jats")] if kind in ARTICLE_TYPES else []
    for node in article.iterfind("./{*}front/{*}article-meta/{*}related-article"):
        own, other = _RELATED.get((node.get("related-article-type") or "").lower(), ("", ""))
        found += _pair(own, other, _related_id(node), "jats")
    return found


def _pair(own: str, other: str, link: str, said_by: str) -> Iterator[Notice]:
    if own:
        yield Notice("", own, link, said_by)
    if other and link:
        yield Notice(link, other, "", said_by)


def _related_id(node: etree._Element) -> str:
    kind = (node.get("ext-link-type") or "").lower()
    told = (node.get(_XLINK) or "").strip()
    if (kind in ("pmid", "pubmed") or "pubmed" in told) and (pmid := pmid_of(told)):
        return f"pmid:{pmid}"
    if (kind.startswith("pmc") or "PMC" in told) and (pmcid := pmcid_of(told)):
        return f"pmcid:{pmcid}"
    doi = doi_of(told)
    return f"doi:{doi}" if doi else ""


def export_notices(body: bytes) -> list[Notice]:
    """Read types and references of a record of an export (`ReadFolder`), of no other JSON.

    It speaks of its ids as a record of PubMed does.
    """
    try:
        record = json.loads(body)
    except ValueError as error:
        raise Unparsable("broken_json", str(error)) from error
    if not isinstance(record, dict) or not record.get("export"):
        return []
    types = record.get("publication_types", [])
    found = [Notice("", standing, "", "type") for standing in of_types(types)]
    for each in record.get("notices", []):
        kind, _, told = each.partition(" ")
        found += _referred(kind, told)
    ids = ((name, form(record.get(name, ""))) for name, form in _FORMS.items())
    own_ids = [f"{name}:{plain}" for name, plain in ids if plain]
    return found + _of_ids(found, own_ids, bool(record.get("text")))


_FORMS = {"pmid": pmid_of, "doi": doi_of, "pmcid": pmcid_of}
_READERS: Mapping[str, Callable[[bytes], list[Notice]]] = {
    "pubmed": pubmed_notices,
    "jats": jats_notices,
    "json": export_notices,
}


def notices_of(format: str, body: bytes) -> list[Notice]:
    """Read what a record says; one that cannot be parsed says nothing."""
    reader = _READERS.get(format)
    if reader is None or not may_speak(body):
        return []
    try:
        return list(dict.fromkeys(reader(body)))
    except Unparsable:
        return []


def without_text(format: str, body: bytes) -> bytes:
    """Return the body of a record without abstract, title and authors, which is no document."""
    if format != "json":
        return _TEXT.sub(b"", body)
    record = json.loads(body)
    kept = {name: record[name] for name in (*_FORMS, *_SPEAKING, "export") if name in record}
    return json.dumps(kept, sort_keys=True).encode("ascii")


_SPEAKING = ("publication_types", "notices")


@dataclass(frozen=True, kw_only=True)
class ReadNotices(Step):
    """RAW to NOTICES: a row for each statement of a record about a paper's standing.

    The records are those of PubMed, of JATS, and of exports in a folder.

    A notice without an abstract is no document, but its statement counts. A record that cannot be
    parsed says nothing here, since ParseDocuments rejects it.
    """

    version: ClassVar[int] = 5
    reads: ClassVar[tuple[str, ...]] = ("raw_id", "source_id", "format", "body", "reject")
    writes: ClassVar[pa.Schema] = NOTICES
    keeps_rows: ClassVar[bool] = False

    def open(self, at: Place) -> Function:
        """Return the reader; it loads nothing."""
        return read_notices


def read_notices(raw: pa.Table) -> pa.Table:
    """Read the notices of a RAW table."""
    rows = [row for each in raw.to_pylist() for row in _rows(each)]
    return pa.Table.from_pylist(rows, schema=NOTICES)


def _rows(raw: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if raw["reject"] is not None:
        return
    for notice in notices_of(raw["format"], raw["body"]):
        yield {
            "doc_id": raw["raw_id"],
            "source_id": raw["source_id"],
            **vars(notice),
            "reject": None,
        }


FOLDER = "statuses"
"""Folder of a root that keeps the lists of its builds, by the hash of their content."""

_NATURES = {
    "retraction": "retracted",
    "expression of concern": "concern",
    "correction": "corrected",
    "reinstatement": "",
}
_WATCH = {"originalpaperpubmedid", "originalpaperdoi", "retractionnature"}
_IDS = ("pmid", "doi", "pmcid", "source_id")
_DATE = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")


def read_statuses(path: Path) -> list[Notice]:
    """Read a CSV; raises UsageError that names the file, and the line of a wrong value.

    It has either Retraction Watch's columns (OriginalPaperPubMedID, OriginalPaperDOI,
    RetractionNature; a later Reinstatement takes a statement back), or `standing` and at least one
    of `pmid`, `doi`, `pmcid` and `source_id`, and maybe `link`.
    """
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            reader = csv.DictReader(file)
            names = {_key(name) for name in reader.fieldnames or ()}
            rows = [(reader.line_num, {_key(k): v or "" for k, v in row.items()}) for row in reader]
    except (OSError, csv.Error) as error:
        raise UsageError(f"statuses={path}: {error}") from error
    if names >= _WATCH:
        return _watched(path, rows)
    if "standing" not in names or not names & {*_IDS}:
        raise UsageError(
            f"statuses={path}: needs the columns of Retraction Watch, or `standing` and one of "
            f"{', '.join(_IDS)}"
        )
    return [notice for line, row in rows for notice in _plain(path, line, row)]


def keep_statuses(store: Store, notices: Iterable[Notice]) -> str:
    """Store a list in a root under the hash of its content; returns the hash."""
    notices = list(notices)
    kept, name = _sorted(notices), list_name(notices)
    store.create()
    commit_json(store.root / FOLDER / f"{name}.json", {"statuses": kept}, sealed=True)
    return name


def list_name(notices: Iterable[Notice]) -> str:
    """Return the hash of a list's content."""
    return content_id(*map("\n".join, _sorted(notices)))


def _sorted(notices: Iterable[Notice]) -> list[tuple[str, str, str]]:
    return sorted({(each.about, each.standing, each.link) for each in notices})


def _plain(path: Path, line: int, row: Mapping[str, str]) -> Iterator[Notice]:
    standing = row["standing"].strip().lower()
    known = [name for name in STANDINGS if name not in ("ok", COPY)]
    if standing not in known:
        detail = f"standing {standing!r} is none of {', '.join(known)}"
        raise UsageError(f"statuses={path}:{line}: {detail}")
    found = [name for name in _abouts(row, "pmid", "doi", "pmcid", "source_id") if name]
    if not found:
        raise UsageError(f"statuses={path}:{line}: the row names no paper")
    for about in found:
        yield Notice(about, standing, row.get("link", "").strip(), "list")


def _watched(path: Path, rows: list[tuple[int, dict[str, str]]]) -> list[Notice]:
    """Take the rows by date, so that a reinstatement cancels earlier statements."""
    standing: dict[str, list[Notice]] = {}
    for _, line, row in sorted(
        ((_date(row), line, row) for line, row in rows), key=lambda r: r[:2]
    ):
        nature = row["retractionnature"].strip().lower()
        if nature not in _NATURES:
            raise UsageError(f"statuses={path}:{line}: RetractionNature {nature!r} is not known")
        notice = next(_abouts(row, "retractionpubmedid", "retractiondoi"), "")
        for about in _abouts(row, "originalpaperpubmedid", "originalpaperdoi"):
            if not _NATURES[nature]:
                standing.pop(about, None)
                continue
            link = "" if notice == about else notice
            standing.setdefault(about, []).append(Notice(about, _NATURES[nature], link, "list"))
    return [notice for found in standing.values() for notice in found]


def _abouts(row: Mapping[str, str], *names: str) -> Iterator[str]:
    """Yield the ids in these columns; "0" and "unavailable" are Retraction Watch's empty values."""
    for name in names:
        told = row.get(name, "").strip()
        if name == "source_id":
            if told:
                yield f"source_id:{told}"
        elif name.endswith("doi"):
            if doi := doi_of(told):
                yield f"doi:{doi}"
        elif name == "pmcid":
            if pmcid := pmcid_of(told):
                yield f"pmcid:{pmcid}"
        elif pmid := pmid_of(told):
            yield f"pmid:{pmid}"


def _date(row: Mapping[str, str]) -> tuple[int, int, int]:
    """Return (year, month, day) of a date as Retraction Watch writes it, month first; 0 unknown."""
    found = _DATE.search(row.get("retractiondate", ""))
    return (int(found[3]), int(found[1]), int(found[2])) if found else (0, 0, 0)


def _key(name: str | None) -> str:
    return (name or "").strip().lower()
