"""Read a relation part by part: in the order given, without the rows that were rejected."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.storage.mirror import opened

Matrix = npt.NDArray[np.float32]


def read_live(paths: Sequence[Path], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the live rows of each part, with these columns."""
    for path in paths:
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


def unpack_vectors(column: pa.ChunkedArray) -> Matrix:
    """Binary rows of equal length → (rows, dimension) float32."""
    rows = column.to_pylist()
    return np.frombuffer(b"".join(rows), dtype=np.float32).reshape(len(rows), -1)


def link_or_copy(path: Path, to: Path) -> None:
    """Have a file that is never written again in a second folder; a copy where links are none."""
    try:
        os.link(path, to)
    except OSError:
        shutil.copyfile(path, to)
