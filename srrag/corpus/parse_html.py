"""HTML pages and Word files in Markdown shape, through selectolax, markdownify and mammoth."""

from __future__ import annotations

import copy
import io
import re
import zipfile
from typing import Any

import mammoth
from bs4 import BeautifulSoup, Tag
from lxml import etree
from markdownify import MarkdownConverter
from selectolax.lexbor import LexborHTMLParser, LexborNode

from srrag.corpus.clean import is_raised_number
from srrag.corpus.inline_xml import MAX_ROWS, TableCell, grid, inline_text, span_of
from srrag.corpus.parse_text import decode, markdown_parts
from srrag.corpus.parsed import (
    Metadata,
    Parsed,
    Unparsable,
    count_words,
    doi_of,
    local_name,
    no_heading,
    xml_root,
    year_of,
)

_MAX_UNPACKED_BYTES = 200_000_000
_TEXT_PARTS = ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml")


def parse_docx(body: bytes) -> Parsed:
    """Read headings, paragraphs, lists and tables of a Word file; pictures are left out.

    Raises Unparsable("broken_docx"), or ("too_large") where the unpacked file is.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as packed:
            unpacked = sum(item.file_size for item in packed.infolist())
            words = _words(packed) if unpacked <= _MAX_UNPACKED_BYTES else 0
    except (zipfile.BadZipFile, ValueError) as error:
        raise Unparsable("broken_docx", str(error)) from error
    if unpacked > _MAX_UNPACKED_BYTES:
        raise Unparsable("too_large", f"{unpacked} bytes when unpacked")
    no_picture = mammoth.images.img_element(lambda image: {"src": ""})
    try:
        page = mammoth.convert_to_html(io.BytesIO(body), convert_image=no_picture).value
    except Exception as error:  # a damaged file raises almost anything in the parser
        detail = (str(error).splitlines() or [""])[0]
        raise Unparsable("broken_docx", f"{type(error).__name__} {detail}".strip()) from error
    parsed = parse_html(f"<html><body>{page}</body></html>".encode())
    left_out = max(0, words - count_words(f"{parsed.title} {parsed.text}"))
    counted: Metadata = {"words_left_out": left_out} if left_out else {}
    return Parsed(parsed.title, parsed.text, {**parsed.metadata, **counted, "encoding": "docx"})


def _words(packed: zipfile.ZipFile) -> int:
    """The words of a file with those of its text boxes, notes and formulas.

    Raises Unparsable where its XML is broken.
    """
    parts = [name for name in _TEXT_PARTS if name in packed.namelist()]
    return sum(count_words(_text(xml_root(packed.read(name)))) for name in parts)


def _text(node: etree._Element) -> str:
    """All text, once: not what was moved away, nor a shape as older programs draw it."""
    if local_name(node) in ("Fallback", "moveFrom"):
        return ""
    if local_name(node) == "t":
        return node.text or ""
    within = "".join(map(_text, node))
    return f"\n{within}\n" if local_name(node) == "p" else within


_NO_TEXT = "script, style, template, noscript, iframe, svg, annotation, annotation-xml"
_NOISE = "nav, header, footer, aside, form, button"
_MAX_DEPTH = 200
_HEAD_BYTES = 2_048
_CHARSET = re.compile(rb"""charset\s{0,9}=\s{0,9}["']?([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE)
# Elements that must be closed; others may stay open, so they do not count as nesting.
_NESTING = re.compile(
    r"<(/?)(?:div|span|section|article|main|table|ul|ol|dl|blockquote|font|center|details|pre"
    r"|b|i|u|a|em|strong|small|big|sub|sup|code|object|(?:svg|g)(?![^<>]*/>))\b",
    re.IGNORECASE,
)
# In XHTML any element may close itself; read as HTML it would hold all that follows.
_CLOSED = re.compile(
    r"<(title|script|style|iframe|textarea|noscript|a|i|b|em|strong|span|div|p|td|th|li|h[1-6]"
    r"|section|aside|nav|header|footer|svg|sup|sub|object|video|audio|canvas)((?:\s[^<>]*)?)/>",
    re.IGNORECASE,
)
_META = {
    "citation_title": "title",
    "citation_pmid": "pmid",
    "citation_doi": "doi",
    "citation_journal_title": "journal",
}
_DATES = ("citation_publication_date", "citation_date", "citation_online_date", "citation_year")
_OTHER_IDS, _OTHER_DATES = ("dc.identifier", "prism.doi"), ("dc.date", "prism.publicationdate")
"""Names of Dublin Core and PRISM, for pages without those of Google Scholar above."""
_BLANKS = re.compile(r"\s+")
_MARKS = re.compile(r"[\d\s,;\[\]\u2013-]+")


_HEADING = "\0"
"""Stands before a heading until the page is whole; no page holds such a character."""


_TOUCHING = re.compile(r"\w")


def _said(node: Any) -> str:
    """The text of what stands beside an element."""
    return node.get_text() if isinstance(node, Tag) else str(node or "")


class _Converter(MarkdownConverter):
    def convert_sup(self, node: Any, text: str, parent_tags: set[str]) -> str:
        """Write a power with "^", so that 10 to the 6th is not 106; leave citation marks out."""
        if _MARKS.fullmatch(text) and (node.find("a") or node.find_parent("a")):
            return ""
        before = _BLANKS.sub(" ", _said(node.previous_sibling))
        power = is_raised_number(before, text.strip(), _said(node.next_sibling))
        return f"^{text.strip()}" if power else text

    def convert_summary(self, node: Any, text: str, parent_tags: set[str]) -> str:
        """Set a block apart, in a cell by blanks."""
        apart = " " if "_inline" in parent_tags else "\n\n"
        return f"{apart}{text.strip()}{apart}"

    def convert_hN(self, n: int, node: Any, text: str, parent_tags: set[str]) -> str:
        """Mark a heading, so that it is told from a note that begins with "#"."""
        if "_inline" in parent_tags:
            return text
        return f"\n\n{_HEADING}{'#' * max(1, min(n, 6))} {' '.join(text.split())}\n\n"

    convert_address = convert_center = convert_fieldset = convert_legend = convert_summary


_TO_MARKDOWN = _Converter(
    bullets="-",
    escape_asterisks=False,
    escape_underscores=False,
    escape_misc=False,
    table_infer_header=True,
    strip=["a", "img", "b", "strong", "i", "em", "code"],
)


def parse_html(body: bytes) -> Parsed:
    """Parse a page; scripts, navigation, page header and footer are left out, and counted.

    Raises Unparsable("too_deep") for nesting deeper than any readable page has.
    """
    declared = _CHARSET.search(body, 0, _HEAD_BYTES)
    text, encoding = decode(body, declared[1].decode("ascii") if declared else "")
    if "<?xml" in text[:200] or "w3.org/1999/xhtml" in text[:_HEAD_BYTES]:
        text = _CLOSED.sub(r"<\1\2></\1>", text)
    _check_depth(text)
    tree = LexborHTMLParser(text)
    metadata: Metadata = {"encoding": encoding, **_metadata(tree)}
    shown = tree.css_first("title")
    page_title = shown.text(strip=True) if shown is not None else ""
    for node in reversed(tree.css(_NO_TEXT)):
        node.decompose()
    words = count_words(_shown(tree.body))
    for node in reversed(tree.css(_NOISE)):
        if _is_noise(node, words):
            node.decompose()
    content = _content(tree)
    if content is None or not content.html:
        raise Unparsable("no_text", "the page has no body")
    try:
        page = with_formulas(BeautifulSoup(content.html, "html.parser"))
        markdown = no_heading(_TO_MARKDOWN.convert_soup(repeat_cells(page))).replace(_HEADING, "")
    except RecursionError as error:
        raise Unparsable("too_deep", "the elements are nested too deeply") from error
    parsed = markdown_parts(markdown, metadata)
    kept = min(count_words(_shown(content)), count_words(markdown))  # cells that span are repeated
    if (left_out := words - kept) > 0:
        parsed.metadata["words_left_out"] = left_out
    return Parsed(parsed.title or page_title, parsed.text, parsed.metadata)


def _shown(node: LexborNode | None) -> str:
    return "" if node is None else node.text(separator=" ")


def _is_noise(node: LexborNode, words: int) -> bool:
    """Whether an element stands beside the text of a page of so many words."""
    within = node.parent
    while node.tag == "header" and within is not None:
        if within.tag in ("main", "article"):
            return False  # the head of the text
        within = within.parent
    return node.tag != "form" or 2 * count_words(_shown(node)) < words  # or all of it is a form


def _content(tree: LexborHTMLParser) -> LexborNode | None:
    """The longest <main>, else <article>, that holds a third of the page's text; else the body.

    On many pages the first <article> is a teaser of another one.
    """
    if tree.body is None:
        return None
    marked = tree.css("main") or tree.css("article")
    longest = max(marked, key=lambda node: len(node.text()), default=tree.body)
    return longest if 3 * len(longest.text()) >= len(tree.body.text()) else tree.body


def with_formulas(page: BeautifulSoup) -> BeautifulSoup:
    """Write formulas of MathML as those of articles are, so that 10 to the 6th is not 106."""
    for formula in page.find_all("math"):
        try:
            root = xml_root(str(formula).encode())
        except Unparsable:
            continue  # its characters stay as they stand
        # What touches the formula tells of what its first and last number are a part.
        before = "".join(_TOUCHING.findall(_said(formula.previous_sibling)[-1:]))
        root.tail = "".join(_TOUCHING.findall(_said(formula.next_sibling)[:1]))
        holder = etree.Element("p")
        holder.text = before
        holder.append(root)
        said = inline_text(holder).removeprefix(before).removesuffix(root.tail)
        formula.replace_with(said)
    return page


def repeat_cells(page: BeautifulSoup) -> BeautifulSoup:
    """Repeat cells that span rows or columns, so that each row of a table stands by itself."""
    for table in page.find_all("table"):
        rows = table.find_all("tr")[:MAX_ROWS]
        cells = (map(_cell, row.find_all(["td", "th"], recursive=False)) for row in rows)
        for row, line in zip(rows, grid(map(list, cells), None), strict=True):
            filled = [_copied(cell) for cell in line if cell is not None]
            row.clear()
            row.extend(filled)
    return page


def _cell(cell: Tag) -> TableCell[Tag | None]:
    return TableCell(cell, span_of(cell.get("colspan")), span_of(cell.get("rowspan")))


def _copied(cell: Tag) -> Tag:
    copied = copy.copy(cell)
    for name in ("colspan", "rowspan"):
        copied.attrs.pop(name, None)
    return copied


def _check_depth(text: str) -> None:
    depth = 0
    for match in _NESTING.finditer(text):
        depth = max(0, depth - 1) if match[1] else depth + 1
        if depth > _MAX_DEPTH:
            raise Unparsable("too_deep", f"over {_MAX_DEPTH} elements within each other")


def _metadata(tree: LexborHTMLParser) -> Metadata:
    metadata: Metadata = {}
    for node in tree.css("meta[name]"):
        name = (node.attributes.get("name") or "").lower()
        content = (node.attributes.get("content") or "").strip()
        if name in _META and content:
            metadata[_META[name]] = content
        elif name in _DATES and (year := year_of(content)):
            metadata["year"] = year
        elif name in _OTHER_IDS and (doi := doi_of(content)):
            metadata.setdefault("doi", doi)
        elif name in _OTHER_DATES and (year := year_of(content)):
            metadata.setdefault("year", year)
    if "title" in metadata and (body := LexborHTMLParser(str(metadata["title"])).body):
        metadata["title"] = body.text()  # some hold tags
    return metadata
