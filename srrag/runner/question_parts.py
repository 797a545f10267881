"""Write a table as the source of a plan: parts named by their content."""

from __future__ import annotations

import time

import pyarrow as pa

from srrag.core.ids import content_id, segment_id
from srrag.core.spec import canonical
from srrag.runner.part import count_reasons
from srrag.storage.store import Receipt, Store


def write_source(
    store: Store, stage: str, fingerprint: str, table: pa.Table, rows: int
) -> list[str]:
    """Write a table in parts of `rows` rows, unless they exist; returns the names in order.

    Equal rows in equal order make the same part, so a name may occur twice.
    """
    return [_write(store, stage, fingerprint, part) for part in _slices(table, rows)]


def part_names(table: pa.Table, rows: int) -> list[str]:
    """Return the names that `write_source` gives to its parts."""
    return [_name(part) for part in _slices(table, rows)]


def _slices(table: pa.Table, rows: int) -> list[pa.Table]:
    return [table.slice(start, rows) for start in range(0, table.num_rows, rows)]


def _name(table: pa.Table) -> str:
    return segment_id(content_id(canonical(row)) for row in table.to_pylist())


def _write(store: Store, stage: str, fingerprint: str, table: pa.Table) -> str:
    started = time.perf_counter()
    part = _name(table)
    if not store.has_part(stage, fingerprint, part):
        size, reasons = table.num_rows, count_reasons(table)

        def receipt(sha256: str, num_bytes: int) -> Receipt:
            seconds = round(time.perf_counter() - started, 4)
            rejected = sum(reasons.values())
            return Receipt(part, size, 0, 0, size, rejected, sha256, num_bytes, seconds, reasons)

        store.write_part(stage, fingerprint, table, receipt)
    return part
