"""Find rows by content id in sorted, memory-mapped arrays of 64-bit keys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from srrag.storage.shards import stems

Keys = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]


def id_keys(ids: Sequence[str]) -> Keys:
    """Return the first 64 bits of hexadecimal content ids."""
    digits = "".join([item[:16] for item in ids])
    if len(digits) == 16 * len(ids) and digits.isalnum():
        return np.frombuffer(bytes.fromhex(digits), ">u8").astype(np.uint64)
    return np.fromiter((int(item[:16], 16) for item in ids), dtype=np.uint64, count=len(ids))


def write_lookup(ids: Sequence[str], out: Path, name: str) -> None:
    """Write `<name>.keys.npy` (sorted) and `<name>.rows.npy` for ids in row order.

    Raises ValueError for two ids with the same key: at 10^8 rows the chance is 3 in 10,000.
    """
    keys = id_keys(ids)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    if len(ordered) > 1 and (ordered[1:] == ordered[:-1]).any():
        twice = int(np.flatnonzero(ordered[1:] == ordered[:-1])[0])
        raise ValueError(f"id {ids[int(order[twice])]} occurs twice")
    np.save(out / f"{name}.keys.npy", ordered)
    np.save(out / f"{name}.rows.npy", order.astype(np.int64))


class Lookup:
    """Memory-mapped rows by id, of one or more files; rows count on from one to the next."""

    def __init__(self, folder: Path, *names: str) -> None:
        """Map the arrays that `write_lookup` wrote under each name."""
        self._keys: list[Keys] = [_mapped(folder / f"{name}.keys.npy") for name in names]
        self._rows: list[Rows] = [_mapped(folder / f"{name}.rows.npy") for name in names]
        lengths = [len(keys) for keys in self._keys]
        self.starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))

    @classmethod
    def of(cls, folder: Path, name: str) -> Lookup:
        """Map the lookups of an index, of one file or in shards."""
        return cls(folder, *stems(folder, name))

    def __len__(self) -> int:
        """Number of ids."""
        return int(self.starts[-1])

    def find(self, ids: Sequence[str]) -> Rows:
        """Return the row of each id; raises ValueError that names an unknown id."""
        found = self.find_known(ids)
        if len(found) and found.min() < 0:
            raise ValueError(f"unit {ids[int(np.argmin(found))]} is not in this index")
        return found

    def find_known(self, ids: Sequence[str]) -> Rows:
        """Return the row of each id, −1 for an unknown one."""
        wanted = id_keys(ids)
        found = np.full(len(wanted), -1, np.int64)
        for start, keys, rows in zip(self.starts, self._keys, self._rows, strict=False):
            if len(keys) and len(wanted):
                place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
                here = np.flatnonzero(keys[place] == wanted)
                found[here] = start + rows[place[here]]
        return found

    def check_unique(self) -> None:
        """Raise ValueError for two ids of different files with the same key."""
        if len(self._keys) > 1:
            ordered = np.sort(np.concatenate(self._keys))
            if (ordered[1:] == ordered[:-1]).any():
                twice = int(ordered[np.flatnonzero(ordered[1:] == ordered[:-1])[0]])
                raise ValueError(f"an id that begins with {twice:016x} occurs twice")


def _mapped(path: Path) -> npt.NDArray[Any]:
    """Map an array as a plain view, since np.memmap is slow to index."""
    return np.asarray(np.load(path, mmap_mode="r"))
