"""JATS articles (PMC and publishers): sections, lists and tables in Markdown shape."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from srrag.corpus.inline_xml import inline_text
from srrag.corpus.parsed import Metadata, Parsed, Unparsable, year_of
from srrag.corpus.safe_xml import local_name, xml_root

_MAX_LEVEL = 6
_SIDE = frozenset(["fn", "table-wrap", "fig", "list", "disp-quote", "boxed-text", "graphic"])
_TYPES = {
    "case-report": "Case Reports",
    "editorial": "Editorial",
    "letter": "Letter",
    "meta-analysis": "Meta-Analysis",
    "systematic-review": "Systematic Review",
    "review-article": "Review",
    "guideline": "Guideline",
    "practice-guideline": "Practice Guideline",
    "retraction": "Retracted Publication",
}


def parse_jats(body: bytes) -> Parsed:
    """Parse an article: abstract and body; the reference list is left out."""
    root = xml_root(body)
    article = root if local_name(root) == "article" else root.find(".//{*}article")
    if article is None:
        raise Unparsable("not_jats", f"the root is <{local_name(root)}>, not <article>")
    parts: list[str] = []
    for abstract in article.iterfind("./{*}front/{*}article-meta/{*}abstract"):
        if abstract.get("abstract-type") in (None, "summary", "section"):
            parts += ["## Abstract", *_blocks(abstract, 3, titled=False)]
    main = article.find("./{*}body")
    if main is not None:
        parts += _blocks(main, 2, titled=False)
    return Parsed(_title(article), "\n\n".join(part for part in parts if part), _metadata(article))


def _blocks(node: etree._Element, level: int, titled: bool = True) -> Iterator[str]:
    """The blocks of a section; `level` is the Markdown level of its subsections' headings."""
    for child in node:
        name = local_name(child)
        if name == "title":
            if titled and (heading := inline_text(child)):
                yield f"{'#' * min(level - 1, _MAX_LEVEL)} {heading}"
        elif name == "sec":
            yield from _blocks(child, level + 1)
        elif name == "p":
            yield inline_text(child, skip=_SIDE)
            yield from _blocks(child, level, titled=False)  # lists and tables in a paragraph
        elif name == "list":
            yield "\n".join(_items(child, ""))
        elif name in ("table-wrap", "fig"):
            yield from _figure(child)
        elif name in ("boxed-text", "disp-quote", "table-wrap-group", "fig-group", "statement"):
            yield from _blocks(child, level + 1)


def _items(node: etree._Element, indent: str) -> Iterator[str]:
    for item in node.iterfind("./{*}list-item"):
        yield f"{indent}- {inline_text(item, skip=_SIDE)}"
        for nested in item.iterfind("./{*}list"):
            yield from _items(nested, indent + "    ")


def _figure(node: etree._Element) -> Iterator[str]:
    named = [node.find("./{*}label"), node.find("./{*}caption")]
    yield " ".join(text for part in named if part is not None and (text := inline_text(part)))
    for table in node.iterfind(".//{*}table"):
        yield "\n".join(_rows(table))


def _rows(table: etree._Element) -> Iterator[str]:
    rows = [
        [inline_text(cell).replace("|", "/") for cell in row if local_name(cell) in ("td", "th")]
        for row in table.iterfind(".//{*}tr")
    ]
    width = max((len(row) for row in rows), default=0)
    for index, row in enumerate(rows):
        yield "| " + " | ".join(row + [""] * (width - len(row))) + " |"
        if index == 0:
            yield "|" + " --- |" * width


def _title(article: etree._Element) -> str:
    node = article.find("./{*}front/{*}article-meta/{*}title-group/{*}article-title")
    return "" if node is None else inline_text(node, skip=frozenset(["fn"]))


def _metadata(article: etree._Element) -> Metadata:
    metadata: Metadata = {"encoding": article.getroottree().docinfo.encoding or "utf-8"}
    meta = article.find("./{*}front/{*}article-meta")
    kind = (article.get("article-type") or "").lower()
    types = [_TYPES[kind]] if kind in _TYPES else []
    if kind:
        metadata["article_type"] = kind
    if meta is not None:
        for node in meta.iterfind("./{*}article-id"):
            name = {"pmc": "pmcid"}.get(node.get("pub-id-type") or "", node.get("pub-id-type"))
            if name in ("pmid", "pmcid", "doi") and node.text:
                metadata[name] = node.text.strip()
        years = [year_of(node.text) for node in meta.iterfind("./{*}pub-date/{*}year")]
        metadata["year"] = min((year for year in years if year), default=0)
        subjects = meta.iterfind("./{*}article-categories//{*}subject")
        types += [text.title() for node in subjects if (text := inline_text(node))]
    if types:
        metadata["publication_types"] = types
    journal = article.findtext("./{*}front/{*}journal-meta//{*}journal-title")
    if journal:
        metadata["journal"] = journal.strip()
    return metadata
