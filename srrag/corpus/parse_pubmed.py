"""One article, or chapter of a book (StatPearls, GeneReviews), as PubMed writes it."""

from __future__ import annotations

from lxml import etree

from srrag.corpus.inline_xml import inline_text
from srrag.corpus.parsed import Metadata, Parsed, Unparsable, year_of
from srrag.corpus.safe_xml import xml_root

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
