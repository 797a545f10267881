"""The index of a completions log: sorted 64-bit heads of the keys, and their row numbers.

The index of a large log is saved beside it as `.npy` files, which all processes of a machine map
into memory, so they share one copy (10⁷ keys: 80 MB, plus 40 MB of row numbers). It is derived
data: a process that finds no index for the present files builds one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srrag.engine.log.entry import KEY_BYTES
from srrag.engine.log.parts import open_part, read_group

_ARRAYS = {"heads": np.uint64, "rows": np.uint32, "groups": np.int64}


@dataclass(frozen=True)
class KeyIndex:
    """An index of the keys in some files.

    `heads`, shape (keys,), holds the first 8 bytes of each key as a number, sorted. `rows`, shape
    (keys,), holds each key's row number, counted over all files (at most 2³² rows). `groups`,
    shape (groups, 3), describes each row group: file number, group number in the file, first row.
    """

    files: tuple[str, ...]
    heads: NDArray[np.uint64]
    rows: NDArray[np.uint32]
    groups: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.heads)

    def places(self, positions: NDArray[np.int64]) -> list[tuple[str, int, int]]:
        """File, row group and row within the group of the keys at positions of the index."""
        rows = self.rows[positions].astype(np.int64)
        at = np.searchsorted(self.groups[:, 2], rows, side="right") - 1
        numbers, groups, first = self.groups[at].T.tolist()
        offsets = (rows - first).tolist()
        return [(self.files[n], g, o) for n, g, o in zip(numbers, groups, offsets, strict=True)]


def head_of(keys: Sequence[bytes]) -> NDArray[np.uint64]:
    """The first 8 bytes of each key as a number that sorts like the key, shape (keys,).

    Raises ValueError for a key that is not 16 bytes long.
    """
    if any(len(key) != KEY_BYTES for key in keys):
        raise ValueError(f"the key of a completion has {KEY_BYTES} bytes")
    return _heads(b"".join(keys))


def _heads(data: bytes | memoryview[int]) -> NDArray[np.uint64]:
    return np.frombuffer(data, ">u8")[:: KEY_BYTES // 8].astype(np.uint64)


def empty_index() -> KeyIndex:
    """The index of no files."""
    nothing: dict[str, Any] = {name: np.empty(0, kind) for name, kind in _ARRAYS.items()}
    return KeyIndex((), **nothing | {"groups": np.empty((0, 3), np.int64)})


def index_file(folder: Path, name: str) -> KeyIndex:
    """Index the keys of one file; raises ValueError that names a damaged file."""
    heads, groups, total = [], [], 0
    with open_part(folder / name) as file:
        for group in range(file.num_row_groups):
            column = read_group(file, folder / name, group, ["key"])["key"].combine_chunks()
            start = column.offset * KEY_BYTES
            data = memoryview(column.buffers()[1])[start : start + len(column) * KEY_BYTES]
            heads.append(_heads(data))
            groups.append((0, group, total))
            total += len(column)
    keys = np.concatenate(heads) if heads else np.empty(0, np.uint64)
    order = np.argsort(keys, kind="stable")
    numbers = np.array(groups, np.int64).reshape(-1, 3)
    return KeyIndex((name,), keys[order], order.astype(np.uint32), numbers)


def join(indexes: Sequence[KeyIndex]) -> KeyIndex:
    """Merge indexes into one, in time linear in their rows, since each is sorted."""
    if len(indexes) == 1:
        return indexes[0]
    first_file = np.cumsum([0, *(len(index.files) for index in indexes)])
    first_row = np.cumsum([0, *(len(index) for index in indexes)])
    heads = np.concatenate([index.heads for index in indexes])
    order = np.argsort(heads, kind="stable")
    rows = np.concatenate(
        [index.rows + np.uint32(first) for index, first in zip(indexes, first_row, strict=False)]
    )
    groups = [
        index.groups + np.array([file, 0, row], np.int64)
        for index, file, row in zip(indexes, first_file, first_row, strict=False)
    ]
    files = tuple(file for index in indexes for file in index.files)
    return KeyIndex(files, heads[order], rows[order], np.concatenate(groups))


def save(folder: Path, index: KeyIndex) -> KeyIndex:
    """Save an index beside the log, delete older ones, and return it memory-mapped.

    If two processes save the same index, the second one uses the files of the first.
    """
    digest = hashlib.blake2b("\n".join(sorted(index.files)).encode(), digest_size=16).hexdigest()
    place = folder / f"index-{digest}"
    temporary = folder / f".index-{uuid.uuid4().hex}"
    temporary.mkdir()
    try:
        for name in _ARRAYS:
            with (temporary / f"{name}.npy").open("wb") as file:
                np.save(file, getattr(index, name), allow_pickle=False)
                file.flush()
                os.fsync(file.fileno())
        (temporary / "files.json").write_text(json.dumps(index.files), "utf-8")
        if _load(place) is None:
            shutil.rmtree(place, ignore_errors=True)
            temporary.rename(place)
    except OSError:
        if _load(place) is None:
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for other in folder.glob("index-*"):
        if other != place:
            shutil.rmtree(other, ignore_errors=True)
    return _load(place) or index


def load(folder: Path, files: frozenset[str]) -> KeyIndex:
    """Map the largest saved index whose files all exist; returns an empty one if there is none."""
    found = [index for place in sorted(folder.glob("index-*")) if (index := _load(place))]
    fitting = [index for index in found if files.issuperset(index.files)]
    return max(fitting, key=len, default=empty_index())


def _load(place: Path) -> KeyIndex | None:
    """Map a saved index; None if it is missing, or incomplete after a power cut."""
    try:
        files = tuple(json.loads((place / "files.json").read_text("utf-8")))
        heads, rows, groups = (
            np.load(place / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS
        )
    except (OSError, ValueError, EOFError, TypeError):
        return None
    kinds = [array.dtype for array in (heads, rows, groups)]
    whole = kinds == list(_ARRAYS.values()) and len(heads) == len(rows) and groups.shape[1:] == (3,)
    return KeyIndex(files, heads, rows, groups) if whole else None
