"""Files of the graph index: ids, codes, ragged lists and vectors, all memory-mapped when read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.model.embed import quantise_rows
from srrag.storage.arrow_file import save_table

Ints = npt.NDArray[np.int64]

_BLOCK_ROWS = 8192


def write_vectors(
    vectors: np.ndarray, out: Path, name: str, none: np.ndarray | None = None
) -> None:
    """Write rows (n, d) as int8 with a scale each, block by block; zeros where `none` is True."""
    values = np.lib.format.open_memmap(out / f"{name}.vectors.npy", "w+", np.int8, vectors.shape)  # type: ignore[no-untyped-call]
    scales = np.empty(len(vectors), np.float16)
    for start in range(0, len(vectors), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        rows = vectors[block].astype(np.float32)
        if none is not None:
            rows[none[block]] = 0
        values[block], scales[block] = quantise_rows(rows)
    np.save(out / f"{name}.scales.npy", scales)


def write_ragged(members: np.ndarray, offsets: Ints, out: Path, name: str) -> None:
    """Write lists one after another, and where each begins."""
    np.save(out / f"{name}.npy", members)
    np.save(out / f"{name}.offsets.npy", offsets)


def write_ids(ids: Any, out: Path, name: str) -> None:
    """Write ids in row order as an Arrow file for memory-mapping."""
    save_table(pa.table({"id": ids}), out / f"{name}.arrow")


def write_codes(column: Any, out: Path, name: str) -> None:
    """Write a column of few distinct words as `<name>.npy` of codes and `<name>.json` of words."""
    words = sorted(pc.unique(column).to_pylist())
    codes = rows_or_none(pc.index_in(column, value_set=pa.array(words, pa.string())))
    np.save(out / f"{name}.npy", codes.astype(np.int16))
    (out / f"{name}.json").write_text(json.dumps(words), "utf-8")


def rows_or_none(found: Any) -> Ints:
    """Positions as int64, with -1 for null."""
    return np.asarray(pc.fill_null(found, -1)).astype(np.int64)
