"""Vectors of a relation as matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Matrix = npt.NDArray[np.float32]


def unpack_vectors(column: pa.ChunkedArray) -> Matrix:
    """Convert binary rows of equal length to float32 (rows, dimension); no rows give (0, 0)."""
    rows = column.to_pylist()
    dimension = len(rows[0]) // 4 if rows else 0
    return np.frombuffer(b"".join(rows), dtype=np.float32).reshape(len(rows), dimension)


def check_finite(matrix: npt.NDArray[np.floating[Any]], ids: Sequence[str], where: object) -> None:
    """Raise ValueError that names the first row of (n, d) with a non-finite squared length.

    Such a vector would rank first for every question, or nowhere.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.einsum("ij,ij->i", matrix, matrix)
    if not np.isfinite(lengths).all():
        row = int(np.flatnonzero(~np.isfinite(lengths))[0])
        raise ValueError(f"{where}: the vector of {ids[row]} is not finite; run the build again")
