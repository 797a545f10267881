"""A book in CNXML as OpenStax publishes it: a collection file, its modules, and their text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lxml import etree

from srrag.core.spec import place_field
from srrag.corpus.inline_xml import TableCell, columns_of, inline_text, markdown, spans_of
from srrag.corpus.parsed import Parsed, Unparsable, local_name, plain_metadata, xml_root
from srrag.corpus.record import RawRecord, refusal, resolve, unique

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
    rows = [[_cell(entry, columns) for entry in row.iterfind("./{*}entry")]
            for row in node.iter("{*}row") for columns in [columns_of(row)]]  # fmt: skip
    if lines := list(markdown(rows)):
        yield "\n".join(lines)


def _cell(entry: etree._Element, columns: Mapping[str, int]) -> TableCell[str]:
    """The text of an entry, the columns and rows that it spans, and its place."""
    for each in entry.iter("{*}newline"):
        each.text = " "
    items = [inline_text(item) for item in entry.iter("{*}item")]
    text = inline_text(entry, frozenset(["list"]))
    said = "; ".join(part for part in (text, *items) if part)
    return TableCell(said, *spans_of(entry, columns))


_FORMAT = "cnxml"


@dataclass(frozen=True)
class _Chapter:
    """Modules of a chapter in order; the number is that of the chapter in the book, from 1."""

    number: int
    title: str
    modules: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ReadCnxml:
    """One document for each module of a collection (`collections/NAME.collection.xml`).

    A chapter is a subcollection that holds modules itself, numbered through the book. Modules lie
    in `modules/ID/index.cnxml` beside the folder of the collection. `drop` lists classes or titles
    of sections that are left out, so that no question about the text is indexed. A module that is
    missing or broken becomes a refusal; modules outside chapters (a preface) are left out.
    """

    path: str = place_field()
    title: str = place_field("field")
    drop: tuple[str, ...] = DROPPED
    modules: str = place_field("")
    """Folder of the modules; "" for `../modules`."""
    max_file_bytes: int = 50_000_000

    def __post_init__(self) -> None:
        """Raise ValueError if `drop` is one text instead of a list."""
        if isinstance(self.drop, str):
            raise ValueError("drop: a list of classes is wanted, as in drop: [review]")

    def scan(self) -> Iterator[RawRecord]:
        """Read the collection now, then yield a record for each module."""
        found = resolve(self.path)
        if found.is_dir():
            listed = sorted(found.glob("*.collection.xml"))
            if len(listed) != 1:
                raise ValueError(f"{self.path}: {len(listed)} collections; name the one to read")
            found = listed[0]
        try:
            root = xml_root(found.read_bytes())
        except (Unparsable, OSError) as error:
            raise ValueError(f"{self.path}: {error}") from error
        chapters = list(_chapters(root))
        if not chapters:
            raise ValueError(f"{self.path}: the collection has no chapter (subcollection)")
        folder = resolve(self.modules) if self.modules else found.parent.parent / "modules"
        return unique(self._records(title_of(root), found.name.split(".")[0], chapters, folder))

    def _records(
        self, book: str, slug: str, chapters: list[_Chapter], folder: Path
    ) -> Iterator[RawRecord]:
        for chapter in chapters:
            before = {"figure": 0, "table": 0}
            order = 0
            for module in chapter.modules:
                name = f"{module}/index.cnxml"
                path = folder / module / "index.cnxml"
                try:
                    if path.stat().st_size > self.max_file_bytes:
                        detail = f"{name}: the cap is {self.max_file_bytes} bytes"
                        yield refusal(name, _FORMAT, "too_large", detail)
                        continue
                    text = path.read_bytes().decode("utf-8", "replace")
                    root = xml_root(text.encode())
                except OSError as error:
                    yield refusal(name, _FORMAT, "unreadable", f"{name}: {error.strerror}")
                    continue
                except Unparsable as error:
                    yield refusal(name, _FORMAT, error.reason, f"{name}: {error.detail}")
                    continue
                opening = "introduction" in (root.get("class") or "").split()
                order += 0 if opening else 1
                title = title_of(root)
                numbered = (
                    f"{chapter.number} {chapter.title}: {title}"
                    if opening
                    else f"{chapter.number}.{order} {title}"
                )
                body = {
                    "cnxml": text,
                    "title": numbered,
                    "book": book,
                    "chapter": str(chapter.number),
                    "chapter_title": chapter.title,
                    "order": str(0 if opening else order),
                    "numbered_before": before,
                    "drop": list(self.drop),
                }
                source_id = f"{slug}-{chapter.number:02d}-{0 if opening else order:02d}"
                packed = json.dumps(body, sort_keys=True).encode("ascii")
                yield RawRecord(name, source_id, _FORMAT, packed)
                counted = count_numbered(root)
                before = {kind: before[kind] + counted[kind] for kind in before}


def _chapters(root: etree._Element) -> Iterator[_Chapter]:
    number = 0
    for node in root.iter("{*}subcollection"):
        content = node.find("./{*}content")
        held = [] if content is None else [each for each in content if local_name(each) == "module"]
        if held:
            number += 1
            modules = tuple(str(each.get("document") or "") for each in held)
            yield _Chapter(number, title_of(node), modules)
