"""Text and document of every window, memory-mapped from the units index, found by id."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.step import Place
from srrag.storage.mapped_table import Lookup, MappedTable, map_table, stems
from srrag.storage.mirror import pull_build

Ints = npt.NDArray[np.int64]

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


LOOKED_UP = ("units", "documents")
STUDIES = ("window_studies", "study_windows", "study_windows.offsets")


class Units:
    """The opened units index."""

    def __init__(self, folder: Path) -> None:
        """Map the files; nothing is read before a query."""
        pull_build(folder)
        self._folder = folder
        self._units, self._documents = (MappedTable(table) for table in map_tables(folder))
        self.units, self.documents = self._units.table, self._documents.table
        self._unit_rows, self._document_rows = (Lookup.of(folder, name) for name in LOOKED_UP)

    def __len__(self) -> int:
        """Number of windows."""
        return int(self.units.num_rows)

    def rows(self, unit_ids: Sequence[str]) -> Ints:
        """Return the row of each window; raises ValueError for an unknown id."""
        return self._unit_rows.find(unit_ids)

    def ids(self, rows: Ints) -> pa.Array:
        """Return the ids of the windows in these rows."""
        return self._units.take_column(rows, "unit_id")

    @cached_property
    def window_studies(self) -> npt.NDArray[np.int32]:
        """The number of each window's study, (windows,): its document, or all of one PMID."""
        return self._studies["window_studies"]

    @cached_property
    def study_windows(self) -> tuple[npt.NDArray[np.int32], Ints]:
        """The windows of each study in their order, and offsets (studies + 1,)."""
        return self._studies["study_windows"], self._studies["study_windows.offsets"]

    @cached_property
    def _studies(self) -> dict[str, npt.NDArray[Any]]:
        """Map the arrays of studies."""
        files = {name: self._folder / f"{name}.npy" for name in STUDIES}
        return {name: np.asarray(np.load(path, mmap_mode="r")) for name, path in files.items()}

    def take(self, unit_ids: Sequence[str], columns: Sequence[str] = UNIT_COLUMNS) -> pa.Table:
        """Return the windows with these ids, in order; raises ValueError for an unknown id."""
        return self._units.take(self._unit_rows.find(unit_ids), columns)

    def take_documents(self, doc_ids: Sequence[str]) -> pa.Table:
        """Return the documents with these ids, in order."""
        return self._documents.take(self._document_rows.find(doc_ids))

    def take_evidence(self, unit_ids: Sequence[str]) -> pa.Table:
        """Return EVIDENCE_COLUMNS of the windows with these ids: their text and source."""
        units = self.take(unit_ids)
        documents = self.take_documents(units["doc_id"].to_pylist())
        columns = {
            name: units[name] if name in UNIT_COLUMNS else documents[name]
            for name in EVIDENCE_COLUMNS
        }
        named = pc.not_equal(units["section"], "")
        columns["section"] = pc.if_else(named, units["section"], documents["section"])
        return pa.table(columns)

    def document_keys(self, unit_ids: Sequence[str], column: str = "source_id") -> pa.Array:
        """Return a document column (by default the corpus's own id) for each window."""
        doc_ids = self.take(unit_ids, ("doc_id",))["doc_id"]
        unique = pc.unique(doc_ids)
        values = self.take_documents(unique.to_pylist())[column].combine_chunks()
        return values.take(pc.index_in(doc_ids, value_set=unique).combine_chunks())

    def first_windows(self, keys: Sequence[str]) -> Ints:
        """Return a window of each paper that is here, by a key of srrag.reading.conversation.

        This reads a column of all documents.
        """
        ids, pmids = self.documents["source_id"], self.documents["pmid"]
        found = []
        for key in keys:
            pmid = key.removeprefix("PMID ")
            row = pc.index(*((ids, key) if pmid == key else (pmids, pmid))).as_py()
            doc_id = self.documents["doc_id"][row].as_py() if row >= 0 else ""
            found.append(pc.index(self.units["doc_id"], doc_id).as_py() if doc_id else -1)
        return np.asarray([row for row in found if row >= 0], np.int64)

    def article_keys(self, unit_ids: Sequence[str]) -> pa.Array:
        """Return the PMID of each window's document, or the corpus's own id where it has none."""
        pmids = self.document_keys(unit_ids, "pmid")
        return pc.if_else(pc.equal(pmids, ""), self.document_keys(unit_ids), pmids)


def map_tables(folder: Path) -> tuple[pa.Table, pa.Table]:
    """Map the windows and the documents of a units index, of one file or in shards."""
    windows, documents = (
        pa.concat_tables(map_table(folder / f"{stem}.arrow") for stem in stems(folder, name))
        for name in LOOKED_UP
    )
    return windows, documents


def studies_of(doc_ids: pa.ChunkedArray, documents: pa.Table) -> dict[str, npt.NDArray[Any]]:
    """Number the studies of windows; documents of one PMID are one. The arrays of STUDIES.

    Raises ValueError for a window without a document.
    """
    own, pmids = documents["doc_id"], documents["pmid"]
    keys = pc.if_else(pc.equal(pc.fill_null(pmids, ""), ""), own, pmids)
    numbers = np.asarray(pc.index_in(keys, value_set=pc.unique(keys)), np.int32)
    found = pc.index_in(doc_ids, value_set=own)
    if found.null_count:
        raise ValueError("units: a window has no document; run the build again")
    study = numbers[np.asarray(found, np.int64)]
    sizes = np.bincount(study, minlength=int(numbers.max(initial=-1)) + 1)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    arrays = study, np.argsort(study, kind="stable").astype(np.int32), offsets
    return dict(zip(STUDIES, arrays, strict=True))


def open_units(at: Place, stage: str = "units") -> Units:
    """Open the units index of a build."""
    return Units(at.artifact(stage))
