"""The units index: text and document of every window, memory-mapped, found by id."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from srrag.index.lookup import Lookup, write_lookup
from srrag.index.parts import read_live
from srrag.step import Build, Place
from srrag.storage.mirror import pull_build

UNIT_COLUMNS = (
    "unit_id", "doc_id", "parent_id", "section", "char_start", "char_end", "text", "grade",
    "num_tokens",
)  # fmt: skip
DOCUMENT_COLUMNS = (
    "doc_id", "source", "source_id", "title", "grade", "grade_source", "year", "pmid", "condition",
)  # fmt: skip
EVIDENCE_COLUMNS = (
    "unit_id", "parent_id", "doc_id", "source_id", "pmid", "grade", "title", "section", "year",
    "char_start", "char_end", "text",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BuildUnits(Build):
    """Writes windows and documents as Arrow files for memory-mapping.

    A document that is one section of a paper, like BEIR's passages, names the section in its
    metadata. The index stores it as the document's `section`, and for its windows without a
    section.
    """

    version: ClassVar[int] = 2

    windows: str = "windows"
    documents: str = "documents"

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `units.arrow`, `documents.arrow` and their lookups."""
        units = _stream(inputs[self.windows], UNIT_COLUMNS, out / "units.arrow")
        write_lookup(units, out, "units")
        columns = (*DOCUMENT_COLUMNS, "metadata")
        documents = _stream(inputs[self.documents], columns, out / "documents.arrow")
        write_lookup(documents, out, "documents")
        return {"windows": len(units), "documents": len(documents)}


def _stream(paths: Sequence[Path], columns: Sequence[str], out: Path) -> list[str]:
    """Copy the live rows of the parts into one Arrow file; return their ids (first column)."""
    ids: list[str] = []
    writer: pa.ipc.RecordBatchFileWriter | None = None
    for read in read_live(paths, columns):
        table = _with_section(read) if "metadata" in columns else read
        if writer is None:
            writer = pa.ipc.new_file(str(out), table.schema)
        writer.write_table(table)
        ids.extend(table[columns[0]].to_pylist())
    if writer is None:
        raise ValueError("there is no part to index")
    writer.close()
    return ids


def _with_section(documents: pa.Table) -> pa.Table:
    """Move the section from the documents' metadata into a column, "" for none."""
    told = (json.loads(each or "{}").get("section") for each in documents["metadata"].to_pylist())
    sections = [each if isinstance(each, str) else "" for each in told]
    return documents.drop_columns(["metadata"]).append_column(
        pa.field("section", pa.string(), nullable=False), pa.array(sections, pa.string())
    )


class Units:
    """The opened units index."""

    def __init__(self, folder: Path) -> None:
        """Map the files; nothing is read before a query."""
        pull_build(folder)
        self.units = pa.ipc.open_file(pa.memory_map(str(folder / "units.arrow"))).read_all()
        self.documents = pa.ipc.open_file(pa.memory_map(str(folder / "documents.arrow"))).read_all()
        self._unit_rows = Lookup(folder, "units")
        self._document_rows = Lookup(folder, "documents")

    def __len__(self) -> int:
        """Number of windows."""
        return int(self.units.num_rows)

    def take(self, unit_ids: Sequence[str], columns: Sequence[str] = UNIT_COLUMNS) -> pa.Table:
        """Return the windows with these ids, in order; raises ValueError for an unknown id."""
        rows = self._unit_rows.find(unit_ids)
        return self.units.select(list(columns)).take(pa.array(rows))

    def take_documents(self, doc_ids: Sequence[str]) -> pa.Table:
        """Return the documents with these ids, in order."""
        return self.documents.take(pa.array(self._document_rows.find(doc_ids)))

    def take_evidence(self, unit_ids: Sequence[str]) -> pa.Table:
        """Return EVIDENCE_COLUMNS of the windows with these ids: their text and source."""
        units = self.take(unit_ids)
        documents = self.take_documents(units["doc_id"].to_pylist())
        columns = {
            name: units[name] if name in UNIT_COLUMNS else documents[name]
            for name in EVIDENCE_COLUMNS
        }
        if "section" in documents.column_names:  # version 1 of this index has none
            named = pc.not_equal(units["section"], "")
            columns["section"] = pc.if_else(named, units["section"], documents["section"])
        return pa.table(columns)

    def document_keys(self, unit_ids: Sequence[str], column: str = "source_id") -> pa.Array:
        """Return a document column (by default the corpus's own id) for each window."""
        doc_ids = self.take(unit_ids, ("doc_id",))["doc_id"]
        unique = pc.unique(doc_ids)
        values = self.take_documents(unique.to_pylist())[column].combine_chunks()
        return values.take(pc.index_in(doc_ids, value_set=unique).combine_chunks())

    def article_keys(self, unit_ids: Sequence[str]) -> pa.Array:
        """Return the PMID of each window's document, or the corpus's own id where it has none."""
        pmids = self.document_keys(unit_ids, "pmid")
        return pc.if_else(pc.equal(pmids, ""), self.document_keys(unit_ids), pmids)


def open_units(at: Place, stage: str = "units") -> Units:
    """Open the units index of a build."""
    return Units(at.artifact(stage))
