"""Arrow files of an index: written in one go, read as a memory map."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa


def save_table(table: pa.Table, path: Path) -> None:
    """Write a table as an Arrow file."""
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


def map_table(path: Path) -> pa.Table:
    """Map an Arrow file; raises OSError if it is none."""
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
