"""Big text units (BTU), by which a chapter is searched, and the small ones (STU) within them.

RASRAG, section 1.1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from srrag.core.rows import Row
from srrag.core.schema import UNITS
from srrag.core.spec import content_id
from srrag.core.step import Function, Place, Step
from srrag.model.encoder import Encoder, load_tokenizer
from srrag.systems.rasrag.text_spans import SectionPaths, split_spans


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
