"""The files of the graph index: memory-mapped arrays, ids, codes of words, and ragged lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.storage.mapped_table import save_table

Ints = npt.NDArray[np.int64]


def write_ids(ids: pa.ChunkedArray | pa.Array, out: Path, name: str) -> None:
    """Write ids as `<name>.arrow`, which readers map."""
    save_table(pa.table({"id": ids}), out / f"{name}.arrow")


def write_codes(column: Any, out: Path, name: str) -> None:
    """Write a column of few distinct words: codes, and `<name>.json` of the words."""
    words = sorted(pc.unique(column).to_pylist())
    codes = rows_or_none(pc.index_in(column, value_set=pa.array(words, pa.string())))
    np.save(out / f"{name}.npy", codes.astype(np.int16))
    (out / f"{name}.json").write_text(json.dumps(words), "utf-8")


def read_codes(folder: Path, name: str) -> tuple[npt.NDArray[np.int16], list[str]]:
    """The codes and the words that `write_codes` wrote."""
    return read_array(folder, name), json.loads((folder / f"{name}.json").read_text("utf-8"))


def write_ragged(members: np.ndarray, offsets: Ints, out: Path, name: str) -> None:
    """Write lists one after another, and where each begins, with the end of the last."""
    np.save(out / f"{name}.npy", members)
    np.save(out / f"{name}.offsets.npy", offsets)


def read_ragged(folder: Path, name: str) -> tuple[npt.NDArray[Any], Ints]:
    """The members and the offsets that `write_ragged` wrote."""
    return read_array(folder, name), read_array(folder, f"{name}.offsets")


def read_array(folder: Path, name: str) -> npt.NDArray[Any]:
    """Map an array as a plain view, since np.memmap is slow to index."""
    return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))


def rows_or_none(found: Any) -> Ints:
    """Positions as int64, with -1 for null."""
    return np.asarray(pc.fill_null(found, -1)).astype(np.int64)
