"""A memory-mapped Arrow table whose rows are gathered batch by batch, however large it is.

Arrow's own `take` first joins all batches of a column: it copies the column for each question, and
fails where strings hold more than 2 GiB (67 million ids of 32 characters; 2 million abstracts).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.storage.arrow_file import map_table

BATCH_BYTES = 64_000_000
"""A table up to this size is joined and copied once: one batch is gathered faster than many."""


class MappedTable:
    """The rows of a table by number; nothing is copied but what is taken."""

    def __init__(self, table: pa.Table) -> None:
        """Note where each batch of the table begins; a small table is joined once."""
        self.table = table.combine_chunks() if table.nbytes <= BATCH_BYTES else table
        self._batches = self.table.to_batches()
        lengths = [batch.num_rows for batch in self._batches]
        self._starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))

    @classmethod
    def at(cls, path: Path) -> MappedTable:
        """Map an Arrow file."""
        return cls(map_table(path))

    def __len__(self) -> int:
        """Number of rows."""
        return int(self._starts[-1])

    def take(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None = None) -> pa.Table:
        """Return rows in the given order; all columns, or those named. Raises IndexError."""
        names = self.table.schema.names if columns is None else list(columns)
        schema = pa.schema([self.table.schema.field(name) for name in names])
        if not len(rows):
            return schema.empty_table()
        if rows.min() < 0 or rows.max() >= len(self):
            raise IndexError(f"rows {rows.min()} to {rows.max()} of {len(self)}")
        part = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(part, kind="stable")
        parts, first = np.unique(part[order], return_index=True)
        found = []
        for number, places in zip(parts, np.split(order, first[1:]), strict=True):
            batch = self._batches[number].select(names)
            found.append(batch.take(pa.array(rows[places] - self._starts[number])))
        gathered = pa.Table.from_batches(found, schema=schema)
        if len(found) == 1 and (np.diff(order) == 1).all():
            return gathered
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return gathered.combine_chunks().take(pa.array(back))

    def take_column(self, rows: npt.NDArray[np.int64], name: str) -> pa.Array:
        """Return one column of some rows, in the given order."""
        return self.take(rows, (name,))[name].combine_chunks()
