"""Arrow files of an index as memory maps, rows gathered batch by batch, and found by content id.

Arrow's own `take` first joins all batches of a column: it copies the column for each question, and
fails where strings hold more than 2 GiB (67 million ids of 32 characters; 2 million abstracts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.storage.atomic_write import commit_json, read_json

SHARDS = "shards.json"


@dataclass(frozen=True)
class IndexShard:
    """A shard: its number, the names of its parts, about how many rows, and what it made."""

    number: int
    parts: tuple[str, ...]
    rows: int
    made: Mapping[str, Any] = field(default_factory=dict)

    def file(self, name: str) -> str:
        """The name of one of its files: "ids.arrow" is "ids-00003.arrow" of shard 3."""
        return shard_file(name, self.number)


def shard_file(name: str, number: int) -> str:
    """The name of a shard's file; the number comes before the ending."""
    stem, dot, ending = name.partition(".")
    return f"{stem}-{number:05d}{dot}{ending}"


def read_shards(folder: Path) -> list[IndexShard]:
    """Read what `write_shards` wrote, by number."""
    found = read_json(folder / SHARDS)["shards"]
    return [IndexShard(**{**each, "parts": tuple(each["parts"])}) for each in found]


def write_shards(shards: Sequence[IndexShard], out: Path) -> None:
    """Record the shards of a version."""
    ordered = sorted(shards, key=lambda each: each.number)
    commit_json(out / SHARDS, {"shards": [asdict(shard) for shard in ordered]})


def stems(folder: Path, name: str) -> list[str]:
    """The stems of the files of this name, by shard."""
    return [shard.file(name) for shard in read_shards(folder)]


def save_table(table: pa.Table, path: Path) -> None:
    """Write a table as an Arrow file."""
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


def map_table(path: Path) -> pa.Table:
    """Map an Arrow file; raises OSError if it is none."""
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


BATCH_BYTES = 64_000_000
"""A table up to this size is joined and copied once: one batch is gathered faster than many."""


class MappedTable:
    """The rows of a table by number; nothing is copied but what is taken."""

    def __init__(self, table: pa.Table) -> None:
        """Note where each batch of the table begins; a small table is joined once."""
        self.table = table.combine_chunks() if table.nbytes <= BATCH_BYTES else table
        self._batches = self.table.to_batches()
        lengths = [batch.num_rows for batch in self._batches]
        self._starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))

    @classmethod
    def at(cls, path: Path) -> MappedTable:
        """Map an Arrow file."""
        return cls(map_table(path))

    def __len__(self) -> int:
        """Number of rows."""
        return int(self._starts[-1])

    def take(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None = None) -> pa.Table:
        """Return rows in the given order; all columns, or those named. Raises IndexError."""
        names = self.table.schema.names if columns is None else list(columns)
        schema = pa.schema([self.table.schema.field(name) for name in names])
        if not len(rows):
            return schema.empty_table()
        if rows.min() < 0 or rows.max() >= len(self):
            raise IndexError(f"rows {rows.min()} to {rows.max()} of {len(self)}")
        if len(self._batches) == 1:
            taken = self._batches[0].select(names).take(pa.array(rows))
            return pa.Table.from_batches([taken], schema=schema)
        part = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(part, kind="stable")
        parts, first = np.unique(part[order], return_index=True)
        found = []
        for number, places in zip(parts, np.split(order, first[1:]), strict=True):
            batch = self._batches[number].select(names)
            found.append(batch.take(pa.array(rows[places] - self._starts[number])))
        gathered = pa.Table.from_batches(found, schema=schema)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return gathered.combine_chunks().take(pa.array(back))

    def take_column(self, rows: npt.NDArray[np.int64], name: str) -> pa.Array:
        """Return one column of some rows, in the given order."""
        if len(self._batches) == 1:
            return self._batches[0].column(name).take(pa.array(rows, pa.int64()))
        return self.take(rows, (name,))[name].combine_chunks()


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
        """Map the lookups of an index in shards."""
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

    def holds(self, other: Lookup) -> bool:
        """Whether all ids of another lookup are among these."""
        own = np.concatenate(self._keys)
        return all(bool(np.isin(keys, own).all()) for keys in other._keys)

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
