"""Questions of a batch as rows, and the columns that a step adds to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Row = dict[str, Any]


def live(batch: pa.Table, columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
    """Columns of the questions that no earlier stage rejected, with their number in the batch."""
    rows = batch.select(columns).to_pylist()
    if "reject" not in batch.column_names:
        yield from enumerate(rows)
        return
    alive = pc.is_null(batch.column("reject")).to_pylist()
    yield from ((i, rows[i]) for i, keep in enumerate(alive) if keep)


def with_columns(batch: pa.Table, columns: pa.Table) -> pa.Table:
    """The batch with these columns, in place of those of the same name."""
    kept = [name for name in batch.column_names if name not in columns.column_names]
    fields = [batch.schema.field(name) for name in kept] + list(columns.schema)
    arrays = [batch.column(name) for name in kept] + columns.columns
    return pa.table(arrays, schema=pa.schema(fields))
