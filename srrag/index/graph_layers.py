"""The arrays of the graph index in layers of rows: an update links those that stand.

Windows, triples and spellings keep their order in an update that only adds, so each layer holds a
range of each. The arrays are computed whole; a layer whose content stands is a link.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.storage.arrow_file import map_table, save_table
from srrag.storage.atomic_write import commit_json, read_json
from srrag.storage.links import link_or_copy
from srrag.storage.shards import shard_file

LAYERS = "layers.json"
_GROWS = 2

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class IndexLayer:
    """Where the rows of a layer end, by kind; they begin where those of the layer before end."""

    windows: int
    nodes: int
    edges: int
    aliases: int


def read_layers(folder: Path) -> list[IndexLayer]:
    """The layers of an index."""
    return [IndexLayer(**each) for each in read_json(folder / LAYERS)["layers"]]


def layered(former: Sequence[IndexLayer], now: IndexLayer) -> list[IndexLayer]:
    """The layers of an index that only grew: the former ones, less the small ones at the end."""
    kept = list(former)
    while kept and kept[-1].windows - (kept[-2].windows if kept[1:] else 0) <= _GROWS * (
        now.windows - kept[-1].windows
    ):
        kept.pop()
    return kept if kept and kept[-1] == now else [*kept, now]


class LayerWriter:
    """Writes arrays by layer into `out`; a file equal to that of the former index is a link."""

    def __init__(self, out: Path, layers: Sequence[IndexLayer], former: Path | None) -> None:
        """Record the layers."""
        self.out, self.layers, self._former = out, layers, former
        commit_json(out / LAYERS, {"layers": [asdict(each) for each in layers]})

    def ranges(self, kind: str) -> list[slice]:
        """The rows of each layer."""
        ends = [0, *(getattr(layer, kind) for layer in self.layers)]
        return [slice(*pair) for pair in itertools.pairwise(ends)]

    def rows(self, name: str, array: np.ndarray, kind: str) -> None:
        """Write `<name>-*.npy`, one row for each row of a kind."""
        for number, rows in enumerate(self.ranges(kind)):
            self.put(name, number, array[rows])

    def ids(self, name: str, ids: pa.ChunkedArray | pa.Array, kind: str) -> None:
        """Write ids as `<name>-*.arrow` for memory-mapping."""
        for number, rows in enumerate(self.ranges(kind)):
            own = pa.table({"id": ids.slice(rows.start, rows.stop - rows.start)})
            file = shard_file(f"{name}.arrow", number)
            before = None if self._former is None else self._former / file
            if before is not None and before.exists() and map_table(before).equals(own):
                link_or_copy(before, self.out / file)
                continue
            save_table(own, self.out / file)

    def codes(self, name: str, column: Any, kind: str) -> None:
        """Write a column of few distinct words: codes, and `<name>.json` of the words."""
        words = sorted(pc.unique(column).to_pylist())
        codes = rows_or_none(pc.index_in(column, value_set=pa.array(words, pa.string())))
        self.rows(name, codes.astype(np.int16), kind)
        (self.out / f"{name}.json").write_text(json.dumps(words), "utf-8")

    def ragged(self, name: str, members: np.ndarray, offsets: Ints, kind: str) -> None:
        """Write lists one after another, and where each begins, with the end of the last."""
        for number, rows in enumerate(self.ranges(kind)):
            start, end = offsets[[rows.start, rows.stop]]
            self.put(name, number, members[start:end])
            self.put(f"{name}.offsets", number, offsets[rows.start : rows.stop + 1] - start)

    def put(self, name: str, number: int, array: np.ndarray) -> None:
        """Write one array of one layer."""
        file = shard_file(f"{name}.npy", number)
        if self._former is not None and (before := self._former / file).exists():
            held = np.load(before, mmap_mode="r", allow_pickle=False)
            if held.dtype == array.dtype and np.array_equal(held, array):
                link_or_copy(before, self.out / file)
                return
        np.save(self.out / file, array)


class LayerReader:
    """Maps the arrays of an index; those of a single layer are read where they lie."""

    def __init__(self, folder: Path) -> None:
        """Read the layers."""
        self.folder, self.layers = folder, read_layers(folder)

    def each(self, name: str) -> list[npt.NDArray[Any]]:
        """The array of each layer, as plain views, since np.memmap is slow to index."""
        files = [self.folder / shard_file(f"{name}.npy", n) for n in range(len(self.layers))]
        return [np.asarray(np.load(f, mmap_mode="r", allow_pickle=False)) for f in files]

    def rows(self, name: str) -> npt.NDArray[Any]:
        """The rows of all layers."""
        return _joined(self.each(name))

    def ragged(self, name: str) -> tuple[npt.NDArray[Any], Ints]:
        """The members of all lists, and where each list begins, with the end of the last."""
        members, offsets = self.each(name), self.each(f"{name}.offsets")
        ends = np.cumsum([len(each) for each in members])
        moved = [each[1:] + end for each, end in zip(offsets[1:], ends, strict=False)]
        return _joined(members), _joined([offsets[0], *moved])

    def ids(self, name: str) -> pa.Table:
        """The ids of all layers, mapped."""
        files = (shard_file(f"{name}.arrow", number) for number in range(len(self.layers)))
        return pa.concat_tables([map_table(self.folder / file) for file in files])

    def whole(self, name: str) -> npt.NDArray[Any]:
        """An array that is not in layers."""
        return np.asarray(np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))

    def words(self, name: str) -> list[str]:
        """The words of a column of codes."""
        found: list[str] = json.loads((self.folder / f"{name}.json").read_text("utf-8"))
        return found


def _joined(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def rows_or_none(found: Any) -> Ints:
    """Positions as int64, with -1 for null."""
    return np.asarray(pc.fill_null(found, -1)).astype(np.int64)
