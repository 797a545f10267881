"""JATS articles (PMC and publishers): sections, lists and tables in Markdown shape."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from lxml import etree

from srrag.corpus.inline_xml import (
    TableCell,
    columns_of,
    inline_text,
    markdown,
    spans_of,
    words_of,
)
from srrag.corpus.parsed import (
    Metadata,
    Parsed,
    Unparsable,
    count_words,
    local_name,
    xml_root,
    year_of,
)

_MAX_LEVEL = 6
_LEFT_OUT = frozenset([
    "ref-list", "ack", "bio", "author-notes", "fn-group", "permissions", "object-id", "sec-meta",
    "kwd-group", "graphic", "inline-graphic", "alt-text", "attrib", "copyright-statement",
    "contrib", "response", "front-stub", "processing-meta", "index", "toc",
])  # fmt: skip
"""What is no text of the article; all else is read, and the words of these are counted."""
_NOTES = frozenset(["fn"])
_TEXT = ("body", "floats-group", "back", "floats-wrap")
_PARTS = frozenset(["", "front", "front-stub", "sub-article", *_TEXT])
"""Parts of an article that are read; those of a publisher's own kind are counted."""
_OTHER_ABSTRACTS = frozenset(["toc", "teaser", "short", "graphical", "web-summary", "video"])
_LETTERS = frozenset([
    "decision-letter", "reply", "reviewer-report", "referee-report", "editor-report",
    "author-comment", "editor-comment", "community-comment", "peer-review",
    "aggregated-review-documents",
])  # fmt: skip
"""Articles within an article that are no part of it, but letters on it."""
_BLOCKS = frozenset([
    "sec", "p", "list", "def-list", "table", "array", "table-wrap", "table-wrap-group",
    "table-wrap-foot", "fig", "fig-group", "boxed-text", "disp-quote", "statement", "media",
    "supplementary-material", "fn", "app", "app-group", "glossary", "notes", "verse-group",
    "speech", "disp-formula-group", "caption",
])  # fmt: skip
_SIDE = _BLOCKS - {"p"} | _LEFT_OUT
"""What stands in a paragraph without being a part of its sentence."""
_TYPES = {
    "case-report": "Case Reports",
    "editorial": "Editorial",
    "letter": "Letter",
    "meta-analysis": "Meta-Analysis",
    "systematic-review": "Systematic Review",
    "review-article": "Review",
    "guideline": "Guideline",
    "practice-guideline": "Practice Guideline",
    "protocol": "Clinical Trial Protocol",
    "study-protocol": "Clinical Trial Protocol",
    "retraction": "Retracted Publication",
    "correction": "Published Erratum",
}


def parse_jats(body: bytes) -> Parsed:
    """Parse an article: abstracts, body, floats, appendices, translations.

    What `_LEFT_OUT` names is not read; `words_left_out` counts its words but the references'.
    """
    root = xml_root(body)
    article = root if local_name(root) == "article" else root.find(".//{*}article")
    if article is None:
        raise Unparsable("not_jats", f"the root is <{local_name(root)}>, not <article>")
    parts_of = [local_name(child) for child in article if local_name(child)]
    if parts_of and not {"front", "body", "back", "sub-article"} & {*parts_of}:
        raise Unparsable("not_jats", f"an <article> of <{'>, <'.join(parts_of[:5])}>")
    dropped: list[str] = []
    parts = [part for part in _parts(article, dropped) if part]
    metadata = _metadata(article)
    if words := sum(map(count_words, dropped)):
        metadata["words_left_out"] = words
    return Parsed(_title(article), "\n\n".join(parts), metadata)


def split_articles(body: bytes) -> list[bytes]:
    """Return the articles of a set, each as a file of its own; [] for a single article."""
    if b"<article" not in body[body.find(b"<article") + 8 :] or b"-articleset" not in body[:2_000]:
        return []
    root = xml_root(body)
    return [etree.tostring(each, encoding="utf-8", with_tail=False) for each in _articles(root)]


def _articles(root: etree._Element) -> Iterator[etree._Element]:
    """The outermost articles."""
    for node in root:
        if local_name(node) == "article":
            yield node
        else:
            yield from _articles(node)


def _parts(article: etree._Element, dropped: list[str]) -> Iterator[str]:
    """The blocks of an article and of those within it, in the order of the file."""
    meta = "./{*}front/{*}article-meta/" if local_name(article) == "article" else "./{*}front-stub/"
    for name in ("abstract", "trans-abstract"):
        for abstract in article.iterfind(f"{meta}{{*}}{name}"):
            if abstract.get("abstract-type") in _OTHER_ABSTRACTS:
                dropped.append(words_of(abstract))
                continue
            title = abstract.find("./{*}title")
            said = "" if title is None else inline_text(title)
            yield f"## {said or 'Abstract'}"
            yield from _blocks(abstract, 3, dropped, titled=False)
    for name in _TEXT:
        for part in article.iterfind(f"./{{*}}{name}"):
            yield from _blocks(part, 2, dropped, titled=False)
    for other in article:
        if local_name(other) not in _PARTS:
            dropped.append(words_of(other))
    for inner in article.iterfind("./{*}sub-article"):
        if (inner.get("article-type") or "").lower() in _LETTERS:
            dropped.append(words_of(inner))
            continue
        title = inner.find("./{*}front-stub//{*}article-title")
        if title is not None:
            yield f"## {inline_text(title, skip=_NOTES)}"
        yield from _parts(inner, dropped)


def _blocks(
    node: etree._Element, level: int, dropped: list[str], titled: bool = True
) -> Iterator[str]:
    """The blocks of a section; `level` is the Markdown level of its subsections' headings."""
    for child in node:
        name = local_name(child)
        if not name or name == "label":
            continue
        if name == "title":
            if titled and (heading := inline_text(child)):
                yield f"{'#' * min(level - 1, _MAX_LEVEL)} {heading}"
        elif name in _LEFT_OUT:
            if name != "ref-list":
                dropped.append(words_of(child))
        elif reader := _READERS.get(name):
            yield from reader(child, level, dropped)
        elif name == "caption":  # of a box
            yield from _blocks(child, level, dropped, titled)
        elif name in _BLOCKS or any(
            local_name(each) in _BLOCKS for each in child.iterdescendants()
        ):
            yield from _blocks(child, level + 1, dropped)
        else:
            yield inline_text(child)


def _paragraph(node: etree._Element, level: int, dropped: list[str]) -> Iterator[str]:
    """A paragraph, then the lists, tables and footnotes that stand in it."""
    yield inline_text(node, skip=_SIDE)
    for block in _within(node):
        holder = etree.Element("sec")
        holder.append(copy.deepcopy(block))
        yield from _blocks(holder, level, dropped, titled=False)


def _within(node: etree._Element) -> Iterator[etree._Element]:
    """The nearest blocks within the running text of an element."""
    for child in node:
        if local_name(child) in _SIDE:
            yield child
        else:
            yield from _within(child)


def _list(node: etree._Element, level: int, dropped: list[str]) -> Iterator[str]:
    """A list with those within it, then what else stands in its items."""
    others: list[etree._Element] = []
    title = node.find("./{*}title")
    if title is not None:
        yield inline_text(title)
    yield "\n".join(_items(node, "", others))
    for block in others:
        holder = etree.Element("sec")
        holder.append(copy.deepcopy(block))
        yield from _blocks(holder, level, dropped, titled=False)


def _items(node: etree._Element, indent: str, others: list[etree._Element]) -> Iterator[str]:
    for item in node.iterfind("./{*}list-item"):
        yield f"{indent}- {inline_text(item, skip=_SIDE)}"
        for block in _within(item):
            if local_name(block) == "list":
                yield from _items(block, indent + "    ", others)
            else:
                others.append(block)


def _definitions(node: etree._Element, level: int, dropped: list[str]) -> Iterator[str]:
    """The title, then a line for each term with what it means, in one block."""
    title = node.find("./{*}title")
    if title is not None:
        yield inline_text(title)
    lines = []
    for item in node.iterfind(".//{*}def-item"):
        term, means = item.find("./{*}term"), item.findall("./{*}def")
        said = "" if term is None else inline_text(term)
        lines.append(f"- {said}: {' '.join(inline_text(each) for each in means)}")
    yield "\n".join(lines)


def _figure(node: etree._Element, level: int, dropped: list[str]) -> Iterator[str]:
    """Label and caption in one block, then all else that is in it."""
    named = [node.find("./{*}label"), node.find("./{*}caption")]
    yield " ".join(text for part in named if part is not None and (text := inline_text(part)))
    holder = etree.Element("sec")
    holder.extend(copy.deepcopy(part) for part in node if part not in named)
    yield from _blocks(holder, level, dropped)


def _note(node: etree._Element, level: int, dropped: list[str]) -> Iterator[str]:
    """A footnote behind its mark, in brackets so that a number is no count."""
    first, *others = [*_blocks(node, level, dropped)] or [""]
    label = node.find("./{*}label")
    mark = "" if label is None else inline_text(label).strip("()[].: ")
    yield f"[{mark}] {first}" if mark and first else first
    yield from others


def _table(node: etree._Element, level: int, dropped: list[str]) -> Iterator[str]:
    yield "\n".join(markdown(_rows(node)))


_READERS = {
    "p": _paragraph,
    "list": _list,
    "def-list": _definitions,
    "table": _table,
    "array": _table,
    "table-wrap": _figure,
    "fig": _figure,
    "fn": _note,
    "media": _figure,
    "supplementary-material": _figure,
}


def _rows(table: etree._Element) -> Iterator[list[TableCell[str]]]:
    """The rows of a table of HTML, or of OASIS (CALS), which names its columns."""
    for row in table.iter("{*}tr", "{*}row"):
        columns = columns_of(row)
        cells = (cell for cell in row if local_name(cell) in ("td", "th", "entry"))
        yield [TableCell(inline_text(cell), *spans_of(cell, columns)) for cell in cells]


def _title(article: etree._Element) -> str:
    """The title with its subtitle, which often tells the design."""
    group = "./{*}front/{*}article-meta/{*}title-group/{*}"
    node, more = article.find(f"{group}article-title"), article.find(f"{group}subtitle")
    if node is None and article.find("./{*}front") is None:  # of a publisher's own kind
        heads = (child for child in article if local_name(child) not in ("body", "back", "tail"))
        titles = (each for head in heads for each in head.iter("{*}article-title", "{*}title"))
        node = next(titles, None)
    parts = (inline_text(each, skip=_NOTES) for each in (node, more) if each is not None)
    title, _, subtitle = "\n".join(parts).partition("\n")
    if not subtitle or subtitle in title:
        return title
    return f"{title} {subtitle}" if title.endswith((":", "?", ".")) else f"{title}: {subtitle}"


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
