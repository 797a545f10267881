"""The rejects of a build in one table: which row, at which stage, for what reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from srrag.schema import REJECTS
from srrag.stage import Plan
from srrag.storage.atomic_write import commit, write_parquet
from srrag.storage.store import Store


def write_rejects(store: Store, plan: Plan, build: str, parts: Sequence[str]) -> int:
    """Write `builds/<build>.rejects.parquet`; returns its number of rows."""
    table = pa.concat_tables([REJECTS.empty_table(), *_rejects(store, plan, parts)])
    path = store.pointer_path(build).with_suffix(".rejects.parquet")
    commit(path, lambda temporary: write_parquet(table, temporary))
    return int(table.num_rows)


def _rejects(store: Store, plan: Plan, parts: Sequence[str]) -> Iterator[pa.Table]:
    for name in (plan.source, *(stage.name for stage in plan.steps)):
        fingerprint = plan.fingerprint(name)
        for receipt in store.receipts(name, fingerprint, parts):
            if not receipt.rejected:
                continue
            table = store.read_part(name, fingerprint, receipt.part)
            rows = table.filter(pc.is_valid(table["reject"]))
            rejects = rows["reject"].combine_chunks()
            # What a row is known by: its own id, and the file or document that it came from.
            source = "source" if "source" in rows.column_names else "doc_id"
            known = rows[source] if source in rows.column_names else rows[0]
            yield pa.table(
                [
                    pa.array([name] * rows.num_rows, pa.string()),
                    rows[0].cast(pa.string()),
                    known.cast(pa.string()),
                    pc.struct_field(rejects, "reason"),
                    pc.struct_field(rejects, "detail"),
                ],
                schema=REJECTS,
            )
