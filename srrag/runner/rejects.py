"""Collect the rejects of a build in one table: row, stage and reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.core.ids import file_sha256
from srrag.core.schema import REJECTS
from srrag.core.stage import Plan
from srrag.storage.atomic_write import commit, write_parquet
from srrag.storage.store import Store

PROPOSED = "proposed"
"""The reason of rows that are proposals for the schema, and no rejects to a reader."""
_MAX_CHARS = 300


def write_rejects(store: Store, plan: Plan, build: str, parts: Sequence[str]) -> str:
    """Write `builds/<build>.rejects.parquet`; returns its sha256, which the pointer names."""
    names = (plan.source, *(stage.name for stage in plan.steps))
    table = rejects_of(store, [(name, plan.fingerprint(name)) for name in names], parts)
    written: list[str] = []

    def write(temporary: Path) -> None:
        write_parquet(table, temporary)
        written.append(file_sha256(temporary))

    commit(rejects_path(store, build), write)
    return written[0]


def read_rejects(store: Store, build: str) -> pa.Table:
    """The REJECTS table of a finished build, as the build wrote it."""
    store.check()
    return pq.read_table(rejects_path(store, build), schema=REJECTS)


def readable_rejects(table: pa.Table, limit: int | None = None) -> str:
    """Name the rejected rows, one a line with reason and detail; "" if there are none.

    Proposals for the schema are left out. With a limit the rest is counted.
    """
    table = table.filter(pc.not_equal(table["reason"], PROPOSED))
    shown = table if limit is None else table.slice(0, limit)
    lines = [
        f"  {row['reason']}: {_one_line(row['detail'] or row['source'])}"
        for row in shown.to_pylist()
    ]
    if rest := table.num_rows - shown.num_rows:
        lines.append(f"  … and {rest:,} more: srrag status rejects=true lists all")
    return "\n".join(lines)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAX_CHARS]


def rejects_path(store: Store, build: str) -> Path:
    """Return the path of the table of rejects, beside the pointer of the build."""
    return store.pointer_path(build).with_suffix(".rejects.parquet")


def rejects_of(
    store: Store, stages: Sequence[tuple[str, str]], parts: Sequence[str], checked: bool = True
) -> pa.Table:
    """Return the rejects of parts in stages, each stage given by (name, fingerprint)."""
    return pa.concat_tables([REJECTS.empty_table(), *_rejects(store, stages, parts, checked)])


def _rejects(
    store: Store, stages: Sequence[tuple[str, str]], parts: Sequence[str], checked: bool
) -> Iterator[pa.Table]:
    for name, fingerprint in stages:
        for receipt in store.receipts(name, fingerprint, parts):
            if not receipt.rejected:
                continue
            table = store.read_part(name, fingerprint, receipt.part, checked=checked)
            rows = table.filter(pc.is_valid(table["reject"]))
            rejects = rows["reject"].combine_chunks()
            # Columns that identify a row: its id, and its file or document.
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
