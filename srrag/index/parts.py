"""Read a relation part by part, in the order given, without rejected rows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.storage.manifest import check_part
from srrag.storage.mirror import opened

Matrix = npt.NDArray[np.float32]


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


def unpack_vectors(column: pa.ChunkedArray) -> Matrix:
    """Convert binary rows of equal length to float32 (rows, dimension)."""
    rows = column.to_pylist()
    return np.frombuffer(b"".join(rows), dtype=np.float32).reshape(len(rows), -1)


def check_finite(matrix: npt.NDArray[np.floating[Any]], ids: Sequence[str], where: object) -> None:
    """Raise ValueError that names the first row of (n, d) with a non-finite squared length.

    Such a vector would rank first for every question, or nowhere.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.einsum("ij,ij->i", matrix, matrix)
    if not np.isfinite(lengths).all():
        row = int(np.flatnonzero(~np.isfinite(lengths))[0])
        raise ValueError(f"{where}: the vector of {ids[row]} is not finite; run the build again")


def link_or_copy(path: Path, to: Path) -> None:
    """Link a file that never changes into a second folder; copy it if links are unsupported."""
    try:
        os.link(path, to)
    except OSError:
        shutil.copyfile(path, to)
