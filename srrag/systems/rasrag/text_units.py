"""Big text units (BTU), by which a chapter is searched, and the small ones (STU) within them.

RASRAG, section 1.1. The paper splits by LangChain's RecursiveCharacterTextSplitter; this follows
its rule and keeps the character spans.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from srrag.core.rows import Row
from srrag.core.schema import UNITS
from srrag.core.spec import content_id
from srrag.core.step import Function, Place, Step
from srrag.corpus.blocks import split_sections
from srrag.model.encoder import Encoder, load_tokenizer

SEPARATORS = ("\n\n", "\n", ". ", " ")
"""Where a text is split, largest break first; a run without any is cut at the limit."""

Span = tuple[int, int]


def split_spans(text: str, size: int, separators: tuple[str, ...] = SEPARATORS) -> list[Span]:
    """Return spans of at most `size` characters that hold every non-blank character once, in order.

    A text is cut at its first separator, and neighbouring pieces are joined while they fit. A piece
    that is too long by itself is cut at the next separator. Spans have no outer blanks and do not
    overlap. Raises ValueError for a size below 1.
    """
    if size < 1:
        raise ValueError(f"size is {size}: a text unit has at least 1 character")
    trimmed = (_trimmed(text, *span) for span in _split(text, (0, len(text)), size, separators))
    return [span for span in trimmed if span[0] < span[1]]


def _split(text: str, span: Span, size: int, separators: tuple[str, ...]) -> Iterator[Span]:
    start, end = _trimmed(text, *span)
    if end - start <= size:
        yield start, end
        return
    if not separators:
        yield from ((low, min(low + size, end)) for low in range(start, end, size))
        return
    open_, close = start, start  # the pieces that are joined so far
    for low, high in _pieces(text, (start, end), separators[0]):
        if _length(text, open_, high) <= size:
            close = high
            continue
        if open_ < close:
            yield open_, close
        if _length(text, low, high) > size:
            yield from _split(text, (low, high), size, separators[1:])
            open_ = close = high
        else:
            open_, close = low, high
    if open_ < close:
        yield open_, close


def _pieces(text: str, span: Span, separator: str) -> Iterator[Span]:
    """The stretches between separators; each separator belongs to the piece before it."""
    start, end = span
    while start < end:
        found = text.find(separator, start, end)
        stop = end if found < 0 else found + len(separator)
        yield start, stop
        start = stop


def _length(text: str, start: int, end: int) -> int:
    low, high = _trimmed(text, start, end)
    return high - low


def _trimmed(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


class SectionPaths:
    """The sections of a document by their first character."""

    def __init__(self, text: str, title: str = "") -> None:
        """Split the text at its headings; `title` as in `split_sections`."""
        sections = [each for each in split_sections(text, title) if each.blocks]
        self._starts = [each.blocks[0].start for each in sections]
        self._paths = [each.path for each in sections]

    def at(self, place: int) -> str:
        """The path at a character, "" before the first heading."""
        found = bisect_right(self._starts, place) - 1
        return self._paths[found] if found >= 0 else ""


@dataclass(frozen=True, kw_only=True)
class _CutByLength(Step):
    """Cut texts into UNITS of at most `size_chars` characters each, without overlap."""

    size_chars: int

    writes: ClassVar[pa.Schema] = UNITS
    keeps_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Raise ValueError for a size below 1."""
        if self.size_chars < 1:
            raise ValueError(f"size_chars is {self.size_chars}: at least 1 is needed")

    def open(self, at: Place) -> Function:
        """Return the function; there is nothing to load."""

        def run(batch: pa.Table) -> pa.Table:
            rows = batch.select(self.reads).to_pylist()
            units = [unit for row in rows if row["reject"] is None for unit in self._units(row)]
            return pa.Table.from_pylist(units, schema=UNITS)

        return run

    @abstractmethod
    def _units(self, row: Row) -> Iterator[Row]:
        """The units of a text."""


@dataclass(frozen=True, kw_only=True)
class CutBigUnits(_CutByLength):
    """Cut DOCUMENTS into UNITS of the view `btu`: 10,000 characters in the paper.

    The units of a document hold each of its non-blank characters once. `section` is the heading
    path at the start of a unit.
    """

    size_chars: int = 10_000

    reads: ClassVar[tuple[str, ...]] = ("doc_id", "title", "text", "grade", "reject")

    def _units(self, row: Row) -> Iterator[Row]:
        paths = SectionPaths(row["text"], row["title"])
        for order, (start, end) in enumerate(split_spans(row["text"], self.size_chars)):
            yield {
                "unit_id": content_id(row["doc_id"], "btu", str(start), str(end)),
                "doc_id": row["doc_id"],
                "view": "btu",
                "parent_id": "",
                "order": order,
                "section": paths.at(start),
                "char_start": start,
                "char_end": end,
                "text": row["text"][start:end],
                "num_tokens": 0,
                "grade": row["grade"],
                "repairs": 0,
                "reject": None,
            }


@dataclass(frozen=True, kw_only=True)
class CutSmallUnits(_CutByLength):
    """Cut UNITS, such as big text units, into UNITS of the view `stu`: 1,000 characters.

    `parent_id` is the unit that was cut, `order` the first character, `num_tokens` a count of the
    encoder's tokenizer. `section` is the path of the headings inside the parent up to this unit, or
    else the parent's section.
    """

    encoder: Encoder
    size_chars: int = 1_000

    reads: ClassVar[tuple[str, ...]] = tuple(UNITS.names)

    def open(self, at: Place) -> Function:
        """Load the tokenizer."""
        count, cut = load_tokenizer(self.encoder).count, super().open(at)

        def run(batch: pa.Table) -> pa.Table:
            units = cut(batch)
            counts = pa.array(count(units["text"].to_pylist()), pa.int32())
            place = UNITS.get_field_index("num_tokens")
            return units.set_column(place, UNITS.field(place), counts)

        return run

    def _units(self, row: Row) -> Iterator[Row]:
        paths, first = SectionPaths(row["text"]), row["char_start"]
        for start, end in split_spans(row["text"], self.size_chars):
            own: dict[str, Any] = {
                "unit_id": content_id(row["doc_id"], "stu", str(first + start), str(first + end)),
                "view": "stu",
                "parent_id": row["unit_id"],
                "order": first + start,
                "section": paths.at(start) or row["section"],
                "char_start": first + start,
                "char_end": first + end,
                "text": row["text"][start:end],
                "repairs": 0,
            }
            yield {**row, **own}
