"""Store descriptions of groups by a hash of their facts: `descriptions.parquet`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from srrag.llm.describe import Description

DESCRIPTIONS = "descriptions.parquet"
_SCHEMA = pa.schema(
    [pa.field(name, pa.string(), nullable=False) for name in ("key", "name", "summary")]
)


def write_descriptions(path: Path, found: Mapping[str, Description]) -> None:
    """Write the descriptions, sorted by key."""
    rows = [{"key": key, **found[key].model_dump()} for key in sorted(found)]
    pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), path, compression="zstd")


def read_descriptions(path: Path) -> dict[str, Description]:
    """Read the descriptions of a previous version, by key."""
    rows = pq.read_table(path).to_pylist()
    return {
        row["key"]: Description.model_construct(name=row["name"], summary=row["summary"])
        for row in rows
    }
