"""Build the units index: text and document of every window, as files for memory-mapping."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from srrag.step import Build, Place
from srrag.storage.lookup import write_lookup
from srrag.storage.read_live import read_live
from srrag.units import DOCUMENT_COLUMNS, UNIT_COLUMNS, studies_of


@dataclass(frozen=True, kw_only=True)
class BuildUnits(Build):
    """Writes windows and documents as Arrow files for memory-mapping.

    A document that is one section of a paper, like BEIR's passages, names the section in its
    metadata. The index stores it as the document's `section`, and for its windows without a
    section. Documents of one PMID are one study.
    """

    version: ClassVar[int] = 3

    windows: str = "windows"
    documents: str = "documents"

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `units.arrow`, `documents.arrow`, their lookups, and the windows of each study."""
        units = _stream(inputs[self.windows], UNIT_COLUMNS, out / "units.arrow")
        write_lookup(units, out, "units")
        columns = (*DOCUMENT_COLUMNS, "metadata")
        documents = _stream(inputs[self.documents], columns, out / "documents.arrow")
        write_lookup(documents, out, "documents")
        _write_studies(out)
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


def _write_studies(out: Path) -> None:
    """Write the study of each window, and the windows of each study."""
    units, documents = (
        pa.ipc.open_file(pa.memory_map(str(out / f"{name}.arrow"))).read_all()
        for name in ("units", "documents")
    )
    for name, values in studies_of(units["doc_id"], documents).items():
        np.save(out / f"{name}.npy", values)


def _with_section(documents: pa.Table) -> pa.Table:
    """Move the section from the documents' metadata into a column, "" for none."""
    told = (json.loads(each or "{}").get("section") for each in documents["metadata"].to_pylist())
    sections = [each if isinstance(each, str) else "" for each in told]
    return documents.drop_columns(["metadata"]).append_column(
        pa.field("section", pa.string(), nullable=False), pa.array(sections, pa.string())
    )
