"""Big text units (BTU): stretches of a document, by which a chapter is searched (RASRAG, 1.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from srrag.core.ids import content_id
from srrag.core.schema import UNITS
from srrag.core.step import Function, Place, Step
from srrag.systems.rasrag.text_spans import SectionPaths, split_spans

VIEW = "btu"


@dataclass(frozen=True, kw_only=True)
class CutBigUnits(Step):
    """Cut DOCUMENTS into UNITS of the view `btu`, of at most `size_chars` characters each.

    Section 1.1 of RASRAG: 10,000 characters, no overlap. The units of a document hold each of its
    non-blank characters once. `section` is the heading path at the start of a unit.
    """

    size_chars: int = 10_000

    reads: ClassVar[tuple[str, ...]] = ("doc_id", "title", "text", "grade", "reject")
    writes: ClassVar[pa.Schema] = UNITS
    keeps_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Raise ValueError for a size below 1."""
        if self.size_chars < 1:
            raise ValueError(f"size_chars is {self.size_chars}: at least 1 is needed")

    def open(self, at: Place) -> Function:
        """Return the function; there is nothing to load."""

        def run(batch: pa.Table) -> pa.Table:
            rows = [
                unit
                for document in batch.select(self.reads).to_pylist()
                if document["reject"] is None
                for unit in self._units(document)
            ]
            return pa.Table.from_pylist(rows, schema=UNITS)

        return run

    def _units(self, document: dict[str, Any]) -> list[dict[str, Any]]:
        paths = SectionPaths(document["text"], document["title"])
        return [
            {
                "unit_id": content_id(document["doc_id"], VIEW, str(start), str(end)),
                "doc_id": document["doc_id"],
                "view": VIEW,
                "parent_id": "",
                "order": order,
                "section": paths.at(start),
                "char_start": start,
                "char_end": end,
                "text": document["text"][start:end],
                "num_tokens": 0,
                "grade": document["grade"],
                "repairs": 0,
                "reject": None,
            }
            for order, (start, end) in enumerate(split_spans(document["text"], self.size_chars))
        ]
