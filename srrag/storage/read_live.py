"""Read a relation part by part, in the order given, without rejected rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.storage.manifest import check_part
from srrag.storage.mirror import opened


def read_live(paths: Sequence[Path], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the live rows of each part, with these columns.

    Each part is first checked against its receipt, once a process; raises DamagedError that names a
    damaged part.
    """
    for path in paths:
        check_part(path)
        file = pq.ParquetFile(opened(path))
        names = file.schema_arrow.names
        wanted = [*columns, "reject"] if "reject" in names else list(columns)
        table = file.read(columns=wanted)
        if "reject" in names:
            rejects = table["reject"]
            if rejects.null_count < len(table):  # a filter copies all texts, and few parts need it
                table = table.filter(pc.is_null(rejects))
            table = table.drop_columns(["reject"])
        yield table
