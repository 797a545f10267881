"""Statements in a record about the standing of papers: its own, and that of others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa
from lxml import etree

from srrag.core.schema import NOTICES
from srrag.core.standing import of_types
from srrag.core.step import Function, Place, Step
from srrag.corpus.inline_xml import inline_text
from srrag.corpus.paper_ids import doi_of, pmcid_of, pmid_of
from srrag.corpus.parsed import Unparsable
from srrag.corpus.safe_xml import local_name, xml_root


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
# JATS: `article-type` of the notice or paper, and `related-article-type`, of which the values are
# those of JATS4R (https://jats4r.niso.org/) and those that PMC's files use.
_ARTICLE_TYPES = {
    "retraction": "retraction_notice",
    "partial-retraction": "retraction_notice",
    "expression-of-concern": "concern_notice",
    "correction": "correction_notice",
    "preprint": "preprint",
}
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
    rb"|article-type=.correction"
)


def may_speak(body: bytes) -> bool:
    """Whether a body contains a word of any notice; most bodies do not, and need no parsing."""
    return _ANY.search(body) is not None


def pubmed_notices(body: bytes) -> list[Notice]:
    """Read publication types and CommentsCorrections of a <PubmedArticle>.

    Without an abstract it is no document; what it says of itself is said of its ids, since the
    paper may be here from another file.
    """
    root = xml_root(body)
    path = ".//Article/PublicationTypeList/PublicationType"
    types = [inline_text(node) for node in root.iterfind(path)]
    found = [Notice("", standing, "", "type") for standing in of_types(types)]
    for node in root.iterfind(".//CommentsCorrectionsList/CommentsCorrections"):
        own, other = _REFERENCES.get(node.get("RefType") or "", ("", ""))
        pmid = pmid_of(node.findtext("PMID") or "")
        found += _pair(own, other, f"pmid:{pmid}" if pmid else "", "pubmed")
    if root.find(".//AbstractText") is None:
        own_ids = list(_own_ids(root))
        said = [each for each in found if not each.about and each.standing != "ok"]
        found += [replace(each, about=about) for each in said for about in own_ids]
    return found


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
    found = [Notice("", _ARTICLE_TYPES[kind], "", "jats")] if kind in _ARTICLE_TYPES else []
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


_READERS: Mapping[str, Callable[[bytes], list[Notice]]] = {
    "pubmed": pubmed_notices,
    "jats": jats_notices,
}


@dataclass(frozen=True, kw_only=True)
class ReadNotices(Step):
    """RAW to NOTICES: a row for each statement of a PubMed or JATS record about a paper's standing.

    A notice without an abstract is no document, but its statement counts. A record that cannot be
    parsed says nothing here, since ParseDocuments rejects it.
    """

    version: ClassVar[int] = 3
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
    reader = _READERS.get(raw["format"])
    if raw["reject"] is not None or reader is None or not may_speak(raw["body"]):
        return
    try:
        found = reader(raw["body"])
    except Unparsable:
        return
    for notice in dict.fromkeys(found):
        yield {
            "doc_id": raw["raw_id"],
            "source_id": raw["source_id"],
            **vars(notice),
            "reject": None,
        }
