"""The texts behind a graph: documents, and the stretches where facts were found, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from srrag.storage.read_live import read_live

DIGITS = 6
"""Digits of an id that are shown first; a title has more only where these are another's too."""

Names: TypeAlias = pa.Array | pa.ChunkedArray


def unique_titles(names: Names, hints: Names, ids: Names) -> pa.Array:
    """Return a unique title for each row: its name, with a suffix if others share it.

    A name that occurs twice gets its hint in brackets. Titles that still collide get the first
    digits of their id, and more digits until all are unique.
    """
    titles, suffix, digits = names, hints, DIGITS
    while True:
        counts = pc.value_counts(titles)
        twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
        if not len(twice):
            return titles.combine_chunks() if isinstance(titles, pa.ChunkedArray) else titles
        longer = pc.binary_join_element_wise(titles, " (", suffix, ")", "")
        titles = pc.if_else(pc.is_in(titles, value_set=twice), longer, titles)
        suffix = pc.utf8_slice_codeunits(ids, 0, digits)
        digits *= 2


_UNIT_COLUMNS = ("unit_id", "doc_id", "text")
_DOCUMENT_COLUMNS = (
    "doc_id", "source_id", "title", "text", "grade", "year", "pmid", "condition",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Parts of the relations that hold text, in the order of the build's pointer."""

    unit_parts: Sequence[Path]
    document_parts: Sequence[Path]

    def units(self, wanted: pa.Array | None = None) -> Iterator[pa.Table]:
        """unit_id, doc_id and text; of these units alone if any are named."""
        return _rows(self.unit_parts, _UNIT_COLUMNS, wanted)

    def documents(self, wanted: pa.Array | None = None) -> Iterator[pa.Table]:
        """Documents with their text; these alone if any are named."""
        return _rows(self.document_parts, _DOCUMENT_COLUMNS, wanted)


def open_texts(parts: Mapping[str, Sequence[Path]]) -> Texts:
    """Find the texts among the parts of a build; raises ValueError that names what is missing."""
    # Builds of version 0.2 and before, and made graphs, found their facts in chunks.
    units = "extracts" if "extracts" in parts else "chunks"
    for stage in (units, "documents"):
        if stage not in parts:
            raise ValueError(f"stage {stage!r} is not in this build; its texts are needed here")
    return Texts(unit_parts=parts[units], document_parts=parts["documents"])


def _rows(
    paths: Sequence[Path], columns: Sequence[str], wanted: pa.Array | None
) -> Iterator[pa.Table]:
    for table in read_live(paths, columns):
        if wanted is None:
            yield table
        else:
            yield table.filter(pc.is_in(table[columns[0]], value_set=wanted))
