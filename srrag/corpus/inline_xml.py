"""Elements of JATS, PubMed and CNXML as text; every number of a table under its heading."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from lxml import etree

from srrag.corpus.parsed import entity_text, local_name

MAX_ROWS, MAX_COLUMNS = 5_000, 100


Content = TypeVar("Content")


class TableCell(NamedTuple, Generic[Content]):
    """A cell with the columns and rows that it spans."""

    content: Content
    columns: int = 1
    rows: int = 1


def span_of(told: object) -> int:
    """The number of columns or rows in an attribute, from 1 to MAX_COLUMNS; 1 for nonsense."""
    text = str(told or "").strip()
    return min(int(text), MAX_COLUMNS) if text.isdecimal() and len(text) < 9 and int(text) else 1


def spans_of(cell: etree._Element, columns: Sequence[str | None]) -> tuple[int, int]:
    """Columns and rows of a cell of HTML, or of CALS, whose columns have names (OASIS TM 9502)."""
    ends = [columns.index(name) for name in map(cell.get, ("namest", "nameend")) if name in columns]
    wide = ends[1] - ends[0] + 1 if len(ends) == 2 else cell.get("colspan")
    more = (cell.get("morerows") or "").lstrip("0")
    return span_of(wide), span_of(cell.get("rowspan")) + (span_of(more) if more else 0)


def grid(rows: Iterable[Sequence[TableCell[Content]]], blank: Content) -> list[list[Content]]:
    """Repeat each cell in all columns and rows that it spans; `blank` is what a short row lacks."""
    below: dict[int, tuple[Content, int]] = {}  # column: cell from above, and its rows to come
    filled = []
    for number, row in enumerate(rows):
        if number == MAX_ROWS:
            break
        cells, line = iter(row), list[Content]()
        while len(line) < MAX_COLUMNS:
            column = len(line)
            if column in below:
                above, left = below.pop(column)
                line.append(above)
                if left > 1:
                    below[column] = (above, left - 1)
            elif (cell := next(cells, None)) is not None:
                for place in range(column, min(column + cell.columns, MAX_COLUMNS)):
                    line.append(cell.content)
                    if cell.rows > 1:
                        below[place] = (cell.content, cell.rows - 1)
            elif any(later > column for later in below):
                line.append(blank)  # a short row below a span
            else:
                break
        filled.append(line)
    return filled


def markdown(rows: Iterable[Sequence[TableCell[str]]]) -> Iterator[str]:
    """Yield the lines of a table: the first row, a rule, the other rows."""
    table = [line for line in grid(rows, "") if line]
    width = max(map(len, table), default=0)
    for number, line in enumerate(table):
        texts = [text.replace("|", "/") for text in line] + [""] * (width - len(line))
        yield f"| {' | '.join(texts)} |"
        if number == 0:
            yield f"|{' --- |' * width}"


_MARK = "\0"
"""Stands for a mark of a citation until the sentence is whole; XML holds no such character."""
_NO_WORDS = rf"(?:[\s,;]*|[\s,;\u2010-\u2013-]*{_MARK}[\s,;\u2010-\u2013{_MARK}-]*)"
_EMPTY_BRACKETS = re.compile(rf" ?(?:\[{_NO_WORDS}\]|\({_NO_WORDS}\))")
"""Brackets of nothing or of citations; a dash alone in them is a sign, as in "HER2(-)"."""
_MARKS = re.compile(rf"( ?){_MARK}(?:[\s,;\u2010-\u2013-]*{_MARK})*(?=(\w)?)")
_BLANKS = re.compile(r"\s+")
_DIGIT_END = re.compile(r"[\d)]\Z")
_NUMBER = re.compile(r"[+\-\u2212\u2013]?\d")
_CITED = ("bibr", "ref")
_IN_SENTENCE = re.compile(r"[^\W\d_]{2}|\b(?:1[89]|20)\d\d[a-z]?\b")
"""A citation with a word or a year, such as "Bell (2011)" or "2011", is a part of its sentence."""
_SOURCE = frozenset(["tex-math", "annotation", "annotation-xml"])
"""The source of a formula, which stands beside it in characters."""


def words_of(node: etree._Element) -> str:
    """All text of an element, as it stands."""
    return " ".join(map(str, node.itertext()))


def inline_text(node: etree._Element, skip: frozenset[str] = frozenset()) -> str:
    """Return the text of an element on one line, without marks of citations and skipped elements.

    A superscript number after a digit is written with "^", so that 10 to the 6th is not 106.
    """
    parts: list[str] = []
    _collect(node, skip, parts)
    text = _BLANKS.sub(" ", "".join(parts))
    text = _EMPTY_BRACKETS.sub("", text)
    return _MARKS.sub(lambda found: found[1] if found[2] else "", text).strip()


def _collect(node: etree._Element, skip: frozenset[str], parts: list[str]) -> None:
    """Collect the text pieces recursively; the parser bounds the depth (256 levels)."""
    parts.append(node.text or "")
    for child in node:
        name = local_name(child)
        if not name:
            parts.append(entity_text(child))
        elif name == "xref" and child.get("ref-type") in _CITED:
            if _IN_SENTENCE.search(words_of(child)):
                _collect(child, skip, parts)
            else:
                parts.append(_MARK)
        elif name in _SOURCE:
            pass
        elif name == "sup":
            _superscript(child, skip, parts)
        elif name not in skip:
            if name in ("break", "p", "title", "label"):
                parts.append(" ")
            _collect(child, skip, parts)
            if name in ("title", "label", "p"):
                parts.append(" ")
        parts.append(child.tail or "")


def _superscript(node: etree._Element, skip: frozenset[str], parts: list[str]) -> None:
    inner: list[str] = []
    _collect(node, skip, inner)
    text = "".join(inner)
    dashes = "\u2013-" if _MARK in text else ""  # alone they are a charge or a sign
    if not text.strip(f" ,;{dashes}{_MARK}"):
        parts.append(_MARK)
        return
    before = next((part for part in reversed(parts) if part), "")
    power = _DIGIT_END.search(before) and _NUMBER.match(text)
    parts.append(f"^{text}" if power else text)
