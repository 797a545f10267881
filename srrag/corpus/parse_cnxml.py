"""CNXML modules (OpenStax books): sections, lists, figures and tables in Markdown shape."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lxml import etree

from srrag.corpus.inline_xml import TableCell, inline_text, markdown, spans_of
from srrag.corpus.parsed import Parsed, Unparsable, plain_metadata
from srrag.corpus.safe_xml import local_name, xml_root

DROPPED = (
    "learning-objectives", "learning-outcomes", "chapter-objectives", "review-questions", "review",
    "section-exercises", "exercises", "case-study", "key-terms", "glossary", "chapter-summary",
    "summary", "references", "further-reading",
)  # fmt: skip
"""Classes (or titles, with hyphens) of sections that hold questions, answers or lists of words."""

_SIDE = frozenset(["list", "figure", "table", "note", "media", "footnote", "title"])
_NEVER = frozenset(["metadata", "title", "glossary", "exercise", "problem", "solution", "footnote"])
_MAX_LEVEL = 6


def parse_cnxml(body: bytes) -> Parsed:
    """Parse a record of ReadCnxml: one module with its place in the book.

    Figures and tables are numbered through the chapter, "Figure 3.2. Caption [image.jpg]", and
    links to them name the number, so that a passage can be matched with its figures.
    """
    try:
        told = json.loads(body)
        root = xml_root(str(told["cnxml"]).encode())
    except (ValueError, KeyError, TypeError) as error:
        raise Unparsable("broken_cnxml", f"not a module of ReadCnxml ({error!r})") from error
    content = root.find("./{*}content")
    if local_name(root) != "document" or content is None:
        raise Unparsable("not_cnxml", f"the root is <{local_name(root)}>, not <document>")
    labels = _numbered(content, told)
    for link in content.iter("{*}link"):
        if not inline_text(link):
            link.text = labels.get(link.get("target-id") or "", "")
    dropped = frozenset(told["drop"])
    text = "\n\n".join(_blocks(content, 2, dropped, labels))
    place: dict[object, object] = {
        name: told[name] for name in ("book", "chapter", "chapter_title", "order")
    }
    return Parsed(str(told["title"]), text, {**plain_metadata(place), "encoding": "utf-8"})


def title_of(root: etree._Element) -> str:
    """The title of a module or collection."""
    found = root.find("./{*}title")
    found = root.find("./{*}metadata/{*}title") if found is None else found
    return "" if found is None else inline_text(found)


def count_numbered(root: etree._Element) -> dict[str, int]:
    """How many figures and tables of a module carry a number."""
    return {name: sum(1 for _ in _of(root, name)) for name in ("figure", "table")}


def _of(root: etree._Element, name: str) -> Iterator[etree._Element]:
    """Figures (not those within a figure) or tables of a module, in order."""
    for node in root.iter(f"{{*}}{name}"):
        parent = node.getparent()
        if parent is None or local_name(parent) != name:
            yield node


def _numbered(content: etree._Element, told: Mapping[str, Any]) -> dict[str, str]:
    """The label of each figure and table by its id."""
    found = {}
    for name in ("figure", "table"):
        before = int(told["numbered_before"][name])
        for number, node in enumerate(_of(content, name), start=before + 1):
            label = f"{name.capitalize()} {told['chapter']}.{number}"
            found[node.get("id") or label] = label
            node.set("label", label)
    return found


def _blocks(
    parent: etree._Element, level: int, dropped: frozenset[str], labels: Mapping[str, str]
) -> Iterator[str]:
    """Yield the blocks of a section in order, a heading first where it has a title."""
    for node in parent:
        name = local_name(node)
        if name in _NEVER or _is_dropped(node, dropped):
            continue
        if name in ("section", "note", "example"):
            heading = node.find("./{*}title")
            if heading is not None and (said := inline_text(heading)):
                yield f"{'#' * min(level, _MAX_LEVEL)} {said}"
            yield from _blocks(node, level + 1, dropped, labels)
        elif name == "list":
            yield "\n".join(_items(node, 0))
        elif name == "figure":
            yield _figure(node)
        elif name == "table":
            yield from _table(node)
        elif text := inline_text(node, _SIDE):
            yield text
            yield from _blocks_inside(node, level, dropped, labels)
        else:
            yield from _blocks_inside(node, level, dropped, labels)


def _blocks_inside(
    node: etree._Element, level: int, dropped: frozenset[str], labels: Mapping[str, str]
) -> Iterator[str]:
    """Yield lists, figures and tables that stand within a paragraph."""
    inner = [child for child in node if local_name(child) in ("list", "figure", "table", "note")]
    if inner:
        holder = etree.Element("section")
        holder.extend(inner)
        yield from _blocks(holder, level, dropped, labels)


def _is_dropped(node: etree._Element, dropped: frozenset[str]) -> bool:
    names = set((node.get("class") or "").split())
    heading = node.find("./{*}title")
    if heading is not None:
        names.add("-".join(inline_text(heading).casefold().split()))
    return bool(names & dropped)


def _items(node: etree._Element, depth: int) -> Iterator[str]:
    heading = node.find("./{*}title")
    if heading is not None and (said := inline_text(heading)):
        yield f"{'  ' * depth}{said}"
    for item in node.iterfind("./{*}item"):
        if text := inline_text(item, _SIDE):
            yield f"{'  ' * depth}- {text}"
        for inner in item.iterfind("./{*}list"):
            yield from _items(inner, depth + 1)


def _figure(node: etree._Element) -> str:
    caption = node.find("./{*}caption")
    images = [str(each.get("src") or "") for each in node.iter("{*}image")]
    names = [each.rsplit("/", 1)[-1] for each in images if each]
    said = "" if caption is None else inline_text(caption)
    parts = [f"{node.get('label')}.", said, *(f"[{name}]" for name in names)]
    return " ".join(part for part in parts if part)


def _table(node: etree._Element) -> Iterator[str]:
    caption = node.find("./{*}caption")
    said = "" if caption is None else inline_text(caption)
    yield f"{node.get('label')}. {said}".strip()
    columns = [spec.get("colname") for spec in node.iter("{*}colspec")]
    rows = [[_cell(entry, columns) for entry in row.iterfind("./{*}entry")]
            for row in node.iter("{*}row")]  # fmt: skip
    if lines := list(markdown(rows)):
        yield "\n".join(lines)


def _cell(entry: etree._Element, columns: Sequence[str | None]) -> TableCell[str]:
    """The text of an entry, and the columns and rows that it spans."""
    for each in entry.iter("{*}newline"):
        each.text = " "
    items = [inline_text(item) for item in entry.iter("{*}item")]
    text = inline_text(entry, frozenset(["list"]))
    said = "; ".join(part for part in (text, *items) if part)
    return TableCell(said, *spans_of(entry, columns))
