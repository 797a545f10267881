"""The texts behind a graph: documents, and the stretches where facts were found, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from srrag.storage.read_live import read_live

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
