"""Find rows by content id in a sorted, memory-mapped array of 64-bit keys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]


def id_keys(ids: Sequence[str]) -> Keys:
    """Return the first 64 bits of hexadecimal content ids."""
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
    """Memory-mapped rows by id."""

    def __init__(self, folder: Path, name: str) -> None:
        """Map the two arrays that `write_lookup` wrote."""
        self.keys: Keys = np.load(folder / f"{name}.keys.npy", mmap_mode="r")
        self.rows: Rows = np.load(folder / f"{name}.rows.npy", mmap_mode="r")

    def find(self, ids: Sequence[str]) -> Rows:
        """Return the row of each id; raises ValueError that names an unknown id."""
        wanted = id_keys(ids)
        place = np.searchsorted(self.keys, wanted)
        inside = np.minimum(place, max(0, len(self.keys) - 1))
        if len(wanted) and (len(self.keys) == 0 or (self.keys[inside] != wanted).any()):
            absent = 0 if len(self.keys) == 0 else int(np.argmax(self.keys[inside] != wanted))
            raise ValueError(f"unit {ids[absent]} is not in this index")
        return np.asarray(self.rows[inside])
