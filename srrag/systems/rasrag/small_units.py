"""Small text units (STU): the passages that RASRAG scores and returns (section 1.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from srrag.core.ids import content_id
from srrag.core.schema import UNITS
from srrag.core.step import Function, Place, Step
from srrag.model.encoder import Encoder
from srrag.model.tokens import load_tokenizer
from srrag.systems.rasrag.text_spans import SectionPaths, split_spans

VIEW = "stu"


@dataclass(frozen=True, kw_only=True)
class CutSmallUnits(Step):
    """Cut UNITS, such as big text units, into UNITS of the view `stu` within them.

    Section 1.1 of RASRAG: 1,000 characters, no overlap. `parent_id` is the unit that was cut,
    `order` the first character, `num_tokens` a count of the encoder's tokenizer. `section` is the
    path of the headings inside the parent up to this unit, or else the parent's section.
    """

    encoder: Encoder
    size_chars: int = 1_000

    reads: ClassVar[tuple[str, ...]] = tuple(UNITS.names)
    writes: ClassVar[pa.Schema] = UNITS
    keeps_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Raise ValueError for a size below 1."""
        if self.size_chars < 1:
            raise ValueError(f"size_chars is {self.size_chars}: at least 1 is needed")

    def open(self, at: Place) -> Function:
        """Load the tokenizer."""
        count = load_tokenizer(self.encoder).count

        def run(batch: pa.Table) -> pa.Table:
            rows = [
                unit
                for parent in batch.select(self.reads).to_pylist()
                if parent["reject"] is None
                for unit in self._units(parent)
            ]
            counts = count([row["text"] for row in rows]).tolist() if rows else []
            for row, tokens in zip(rows, counts, strict=True):
                row["num_tokens"] = tokens
            return pa.Table.from_pylist(rows, schema=UNITS)

        return run

    def _units(self, parent: dict[str, Any]) -> list[dict[str, Any]]:
        paths = SectionPaths(parent["text"])
        first = parent["char_start"]
        return [
            {
                **parent,
                "unit_id": content_id(parent["doc_id"], VIEW, str(first + start), str(first + end)),
                "view": VIEW,
                "parent_id": parent["unit_id"],
                "order": first + start,
                "section": paths.at(start) or parent["section"],
                "char_start": first + start,
                "char_end": first + end,
                "text": parent["text"][start:end],
                "repairs": 0,
            }
            for start, end in split_spans(parent["text"], self.size_chars)
        ]
