"""Elements of JATS, PubMed and CNXML as text; every number of a table under its heading."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Generic, NamedTuple, TypeVar

from lxml import etree

from srrag.corpus.clean import is_raised_number
from srrag.corpus.parsed import entity_text, local_name, no_heading

MAX_ROWS, MAX_COLUMNS = 5_000, 100


Content = TypeVar("Content")


class TableCell(NamedTuple, Generic[Content]):
    """A cell with the columns and rows that it spans, and the place, from 0, that it asks for."""

    content: Content
    columns: int = 1
    rows: int = 1
    place: int = 0


def span_of(told: object) -> int:
    """The number of columns or rows in an attribute, from 1 to MAX_COLUMNS; 1 for nonsense."""
    text = str(told or "").strip()
    return min(int(text), MAX_COLUMNS) if text.isdecimal() and len(text) < 9 and int(text) else 1


def columns_of(row: etree._Element) -> dict[str, int]:
    """The places of the columns that the table, group or head of a row of CALS names first."""
    for holder in row.iterancestors():
        specs = list(takewhile(lambda each: local_name(each) == "colspec", holder))
        if specs or local_name(holder) == "table":
            named = ((spec.get("colname"), spec.get("colnum")) for spec in specs)
            return {
                name: span_of(number or place) - 1
                for place, (name, number) in enumerate(named, 1)
                if name
            }
    return {}


def spans_of(cell: etree._Element, columns: Mapping[str, int]) -> tuple[int, int, int]:
    """Columns, rows and place of a cell of HTML, or of CALS, which names them (OASIS TM 9502).

    A row of CALS leaves out empty cells, so that the next one names its column.
    """
    first, last = (columns.get(cell.get(name) or "") for name in ("namest", "nameend"))
    wide = last - first + 1 if first is not None and last is not None else cell.get("colspan")
    more = (cell.get("morerows") or "").lstrip("0")
    place = columns.get(cell.get("colname") or "", first or 0)
    return span_of(wide), span_of(cell.get("rowspan")) + (span_of(more) if more else 0), place


def grid(rows: Iterable[Sequence[TableCell[Content]]], blank: Content) -> list[list[Content]]:
    """Repeat each cell in all columns and rows that it spans; `blank` is what a short row lacks."""
    below: dict[int, tuple[Content, int]] = {}  # column: cell from above, and its rows to come
    filled = []
    for number, row in enumerate(rows):
        if number == MAX_ROWS:
            break
        cells, line = list(reversed(row)), list[Content]()
        while len(line) < MAX_COLUMNS:
            column = len(line)
            if column in below:
                above, left = below.pop(column)
                line.append(above)
                if left > 1:
                    below[column] = (above, left - 1)
            elif cells and cells[-1].place > column:
                line.append(blank)  # an empty cell that is left out
            elif cells:
                cell = cells.pop()
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
_APART = ("p", "title", "label", "mtr", "mtd")
"""Elements that stand apart from what is beside them."""
_CITED = ("bibr", "ref")
_NOTED = ("fn", "table-fn")
"""Marks of footnotes, which are printed raised."""
_IN_SENTENCE = re.compile(r"[^\W\d_]{2}|\b(?:1[89]|20)\d\d[a-z]?\b")
"""A citation with a word or a year, such as "Bell (2011)" or "2011", is a part of its sentence."""
_SOURCE = frozenset(["tex-math", "annotation", "annotation-xml"])
"""The source of a formula, which stands beside it in characters."""
_SIGN_APART = re.compile(r"\A([+\-\u2212\u2013])\s+(?=\d)")
_TOKEN = re.compile(r"[+\-\u2212\u2013]?[\w.,]*")
_WORD_END = re.compile(r"\w\Z")
_WORD = re.compile(r"\s*\w")


def words_of(node: etree._Element) -> str:
    """All text of an element, as it stands."""
    return " ".join(map(str, node.itertext()))


def inline_text(node: etree._Element, skip: frozenset[str] = frozenset()) -> str:
    """Return the text of an element on one line, without marks of citations and skipped elements.

    A superscript number after a number is written with "^", so that 10 to the 6th is not 106, and a
    fraction of MathML with "/".
    """
    parts: list[str] = []
    _collect(node, skip, parts)
    text = _BLANKS.sub(" ", "".join(parts))
    text = _EMPTY_BRACKETS.sub("", text)
    return no_heading(_MARKS.sub(lambda found: found[1] if found[2] else "", text).strip())


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
        elif name == "sup" or (name == "xref" and child.get("ref-type") in _NOTED):
            _superscript(child, skip, parts)
        elif formula := _FORMULAS.get(name):
            formula(child, skip, parts)
        elif name not in skip:
            if name in _APART or name in ("break", "hr", "mspace"):
                parts.append("\n")
            _collect(child, skip, parts)
            if name in _APART:
                parts.append("\n")
        parts.append(child.tail or "")


def _superscript(node: etree._Element, skip: frozenset[str], parts: list[str]) -> None:
    text = _inner(node, skip)
    dashes = "\u2013-" if _MARK in text else ""  # alone they are a charge or a sign
    if not text.strip(f" ,;{dashes}{_MARK}"):
        parts.append(_MARK)
        return
    if is_raised_number("".join(parts[-_NEAR:]), text.strip(), node.tail or ""):
        _cut_blanks(parts)
        text = f"^{text.strip()}"
    parts.append(text)


def _cut_blanks(parts: list[str]) -> None:
    while parts and not parts[-1][-1:].strip():
        parts[-1] = parts[-1].rstrip()
        if not parts[-1]:
            parts.pop()


def _inner(node: etree._Element, skip: frozenset[str]) -> str:
    inner: list[str] = []
    _collect(node, skip, inner)
    return "".join(inner)


def _children(
    node: etree._Element, skip: frozenset[str], parts: list[str], wanted: int
) -> list[str] | None:
    """The texts of the parts of a formula; where it has others, collect it as it stands."""
    inner = [_inner(child, skip).strip() for child in node if local_name(child)]
    if len(inner) == wanted:
        return inner
    _collect(node, skip, parts)
    return None


def _bracketed(text: str) -> str:
    return text if _TOKEN.fullmatch(text) else f"({text})"


def _power(node: etree._Element, skip: frozenset[str], parts: list[str]) -> None:
    """A base, in `msubsup` with an index, and its power; an empty base is what stands before."""
    wanted = 3 if local_name(node) == "msubsup" else 2
    if (inner := _children(node, skip, parts, wanted)) is None:
        return
    power = _SIGN_APART.sub(r"\1", inner[-1])
    base = "".join(inner[:-1])
    before = base or "".join(parts[-_NEAR:]).rstrip()
    raised = is_raised_number(before, power, "")
    if raised and not base:  # there are blanks of a layout
        _cut_blanks(parts)
    parts.append(f"{base}^{_bracketed(power)}" if raised else f"{base}{power}")


def _fraction(node: etree._Element, skip: frozenset[str], parts: list[str]) -> None:
    """A fraction, apart from a number on either side; one without a line is no fraction."""
    if (inner := _children(node, skip, parts, 2)) is None:
        return
    mark = " " if (node.get("linethickness") or "1").startswith("0") else "/"
    text = mark.join(map(_bracketed, inner))
    following = node.getnext()
    after = node.tail or ("" if following is None else words_of(following))
    ahead = " " if _WORD_END.search("".join(parts[-_NEAR:])) else ""
    parts.append(f"{ahead}{text}{' ' if _WORD.match(after) else ''}")


def _root(node: etree._Element, skip: frozenset[str], parts: list[str]) -> None:
    parts.append(f"\u221a{_bracketed(_inner(node, skip).strip())}")


def _other_root(node: etree._Element, skip: frozenset[str], parts: list[str]) -> None:
    """A cube root and the like, as the power that it is."""
    if inner := _children(node, skip, parts, 2):
        parts.append(f"{_bracketed(inner[0])}^(1/{_bracketed(inner[1])})")


_NEAR = 4
"""Pieces of text before a formula, of which some are empty."""
_FORMULAS: Mapping[str, Callable[[etree._Element, frozenset[str], list[str]], None]] = {
    "msup": _power,
    "msubsup": _power,
    "mfrac": _fraction,
    "msqrt": _root,
    "mroot": _other_root,
}
