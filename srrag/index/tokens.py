"""Token index: where the token vectors of every window lie, and its sentence vector.

Token vectors are most of a root's bytes, so they are on disk once: the index links the parts of
the vectors, which store them plain, and notes at which byte of which part each window's begin.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.algo.maxsim import take_ragged
from srrag.core.step import Place, PreviousVersion
from srrag.index.parts import check_finite, unpack_vectors
from srrag.index.shard_plan import (
    ShardedBuild,
    former_shards,
    link_shards,
    part_rows,
    regroup,
    unchanged,
    write_each,
)
from srrag.index.titles import TITLE_WEIGHT, with_titles
from srrag.storage.atomic_write import link_or_copy, write_parquet
from srrag.storage.manifest import read_live
from srrag.storage.mapped_table import IndexShard, Lookup, read_shards, write_lookup, write_shards
from srrag.storage.mirror import fetch, opened

_FILES = (
    "places.npy", "scales.f2", "vectors.f4", "offsets.npy", "dimensions.npy", "units.keys.npy",
    "units.rows.npy",
)  # fmt: skip
_MOST_MAPPED = 8192
"""Parts mapped at a time; a process may map 65,530 files."""

_BLOCK_TOKENS = 4096
"""Token vectors read at a time: more leave the cache of a core, fewer cost more calls."""


@dataclass(frozen=True)
class _Part:
    """A part of vectors, and those of its windows and titles where titles count."""

    vectors: Path
    windows: Path | None
    titles: Path | None


@dataclass(frozen=True)
class _Draft:
    """A shard to write."""

    shard: IndexShard
    parts: tuple[_Part, ...]
    title_weight: float
    out: Path


@dataclass(frozen=True, kw_only=True)
class BuildTokenIndex(ShardedBuild):
    """Says where in the parts the token vectors of each window lie, shard by shard, for rerankers.

    Token vectors are int8 for MaxSim. A part is linked; where links are unsupported it is copied,
    and a part that does not store them plain is written again. Sentence vectors stay float32, a few
    percent of the whole. `titles` names the stage of the titles' vectors, "" for none, which are
    added to the sentence vectors as in the dense index; `windows` links windows to titles. An
    update links the shards whose parts stand. A window whose row of vectors was rejected is found
    all the same, by its words: it has no token and a sentence vector of zeros.
    """

    version: ClassVar[int] = 4

    vectors: str = "vectors"
    windows: str = ""
    titles: str = ""
    title_weight: float = TITLE_WEIGHT

    def write(
        self,
        inputs: Mapping[str, Sequence[Path]],
        out: Path,
        at: Place,
        former: PreviousVersion | None,
    ) -> dict[str, float | int | str]:
        """Link the parts; write `places`, `scales`, `vectors`, `offsets` and a lookup, by shard."""
        parts = self._parts(inputs)
        rows = part_rows([part.vectors for part in parts.values()])
        kept = [n for n, p in parts.items() if unchanged(former, p.vectors, p.windows, p.titles)]
        stand, new = regroup(rows, former_shards(former), kept, self.shard_rows)
        link_shards(stand, _FILES, former, out)
        for name in (_linked_name(part) for shard in stand for part in shard.parts):
            assert former is not None, "only a former version has shards"
            link_or_copy(former.folder / name, out / name)
        drafts = [
            _Draft(shard, tuple(parts[part] for part in shard.parts), self.title_weight, out)
            for shard in new
        ]
        written = write_each(_write_shard, drafts, sum(s.rows for s in new), self.shard_rows, at)
        shards = [*stand, *written]
        write_shards(shards, out)
        Lookup.of(out, "units").check_unique()
        made = [shard.made for shard in shards]
        return {
            "windows": sum(int(each["windows"]) for each in made),
            "tokens": sum(int(each["tokens"]) for each in made),
            "dimension": max((int(each["dimension"]) for each in made), default=0),
            "cut": sum(int(each["cut"]) for each in made),
        }

    def _parts(self, inputs: Mapping[str, Sequence[Path]]) -> dict[str, _Part]:
        """The parts by name, with those of windows and titles."""
        windows, titles = (
            {path.name: path for path in inputs[name]} if self.titles else {}
            for name in (self.windows, self.titles)
        )
        return {
            path.name: _Part(path, windows.get(path.name), titles.get(path.name))
            for path in inputs[self.vectors]
        }


def _write_shard(draft: _Draft) -> IndexShard:
    """Link the parts of one shard and write its files, part by part."""
    ids: list[str] = []
    counts: list[int] = []
    places: list[tuple[int, int]] = []
    refused: list[str] = []
    dimension = width = cut = 0
    out, named = draft.out, draft.shard.file
    with (
        (out / named("scales.f2")).open("wb") as scales,
        (out / named("vectors.f4")).open("wb") as vectors,
    ):
        columns = ("unit_id", "vector", "tokens", "token_scales", "cut")
        for number, part in enumerate(draft.parts):
            (read,) = read_live([part.vectors], columns)
            _check(read, part.vectors)
            refused += _refused(part.vectors)
            places += [(number, place) for place in _linked(part.vectors, read, out)]
            table = _titled(read, part, draft.title_weight)
            ids.extend(table["unit_id"].to_pylist())
            cut += pc.sum(table["cut"]).as_py() or 0
            for vector, block, scale in zip(
                table["vector"], table["tokens"], table["token_scales"], strict=True
            ):
                counts.append(len(scale.as_buffer()) // 2)
                width = len(vector.as_buffer()) // 4
                if counts[-1]:
                    # Not the sentence vector's: a dense layer after pooling changes its length.
                    dimension = len(block.as_buffer()) // counts[-1]
                scales.write(scale.as_buffer())
                vectors.write(vector.as_buffer())
        vectors.write(bytes(4 * width * len(refused)))
    made = {"windows": len(ids), "tokens": sum(counts), "cut": cut}
    ids += refused
    counts += [0] * len(refused)
    places += [(0, 0)] * len(refused)  # never read
    np.save(out / named("places.npy"), np.array(places, np.int64).reshape(-1, 2))
    np.save(out / named("offsets.npy"), np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]))
    dimension = dimension or width
    np.save(out / named("dimensions.npy"), np.array([dimension, width]))
    write_lookup(ids, out, named("units"))
    return replace(draft.shard, made={**made, "dimension": dimension})


def _refused(part: Path) -> list[str]:
    """The windows of a part whose rows were rejected, so that they have no vectors."""
    with opened(part) as file:
        rows = pq.read_table(file, columns=["unit_id", "reject"])
    found: list[str] = rows["unit_id"].filter(pc.is_valid(rows["reject"])).to_pylist()
    return found


def _linked(part: Path, rows: pa.Table, out: Path) -> list[int]:
    """Link a part into the index; return the byte at which each row's token vectors begin."""
    link = out / _linked_name(part.name)
    link_or_copy(fetch(part), link)
    found = _found(link, rows["tokens"])
    if found is None:
        link.unlink()
        write_parquet(rows.select(["unit_id", "tokens"]), link)
        found = _found(link, rows["tokens"])
    assert found is not None, "write_parquet stores bytes plain"
    return found


def _linked_name(part: str) -> str:
    return f"tokens-{part}"


def _found(path: Path, blocks: pa.ChunkedArray) -> list[int] | None:
    """Where each of the blocks lies in a file, in order; None unless all lie there as they are."""
    found, start = [], 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        for block in blocks:
            start = mapped.find(block.as_buffer(), start)
            if start < 0:
                return None
            found.append(start)
            start += len(block.as_buffer())
    return found


def _titled(table: pa.Table, part: _Part, weight: float) -> pa.Table:
    """The rows of a part with the titles in their sentence vectors."""
    if part.titles is None or part.windows is None:
        return table
    ids = table["unit_id"].combine_chunks()
    block = unpack_vectors(table["vector"])
    mixed = with_titles(block, ids, part.windows, part.titles, weight)
    vectors = pa.array([row.tobytes() for row in mixed], pa.binary())
    return table.set_column(table.column_names.index("vector"), "vector", vectors)


class _TokenShard:
    """The mapped files of a shard; windows without a token take any dimension."""

    def __init__(self, folder: Path, shard: IndexShard) -> None:
        def at(name: str) -> Path:
            return folder / shard.file(name)

        self.parts = [folder / _linked_name(name) for name in shard.parts]
        self.dimension, self.width = np.load(at("dimensions.npy")).tolist()
        self.offsets: npt.NDArray[np.int64] = np.asarray(np.load(at("offsets.npy"), mmap_mode="r"))
        self._places = np.asarray(np.load(at("places.npy"), mmap_mode="r"))
        self.scales = _mapped(at("scales.f2"), np.float16, (int(self.offsets[-1]),))
        self.vectors = _mapped(at("vectors.f4"), np.float32, (len(self.offsets) - 1, self.width))

    def places(self, rows: npt.NDArray[np.int64]) -> list[tuple[Path, int]]:
        """The file of each row's token vectors, and the byte at which they begin."""
        return [(self.parts[part], at) for part, at in self._places[rows].tolist()]


@dataclass(frozen=True, slots=True)
class FoundTokens:
    """The token vectors of units: their scales, where each unit's begin, and the bytes on disk."""

    scales: npt.NDArray[np.float16]
    offsets: npt.NDArray[np.int64]
    dimension: int
    _bytes: list[tuple[npt.NDArray[np.int8], int]]

    def values(
        self, first: int, last: int, into: npt.NDArray[np.int8] | None = None
    ) -> npt.NDArray[np.int8]:
        """Read the token vectors of some of the units (n, dimension)."""
        offsets = self.offsets[first : last + 1] - self.offsets[first]
        values = np.empty((offsets[-1], self.dimension), np.int8) if into is None else into
        ends = (offsets * self.dimension).tolist()
        flat = values.reshape(-1)
        for (part, at), begin, end in zip(self._bytes[first:last], ends, ends[1:], strict=False):
            flat[begin:end] = part[at : at + end - begin]
        return values[: offsets[-1]]

    def blocks(
        self,
    ) -> Iterator[
        tuple[slice, npt.NDArray[np.int8], npt.NDArray[np.int64], npt.NDArray[np.float16]]
    ]:
        """Read some units at a time: which, their vectors, offsets and scales.

        The vectors are overwritten by the next ones: so they stay in the processor's cache, and no
        memory is asked of the system for all.
        """
        sizes = np.diff(self.offsets)
        room = np.empty((_BLOCK_TOKENS + sizes.max(initial=0), self.dimension), np.int8)
        first = 0
        while first < len(sizes):
            end = self.offsets[first] + _BLOCK_TOKENS
            last = max(first + 1, int(np.searchsorted(self.offsets, end, "right")) - 1)
            begin, stop = self.offsets[first], self.offsets[last]
            offsets = self.offsets[first : last + 1] - begin
            yield (
                slice(first, last),
                self.values(first, last, room),
                offsets,
                self.scales[begin:stop],
            )
            first = last


_NOWHERE = (np.zeros(0, np.int8), 0)


class TokenIndex:
    """The opened token index."""

    def __init__(self, folder: Path) -> None:
        """Map the files; a part is mapped when one of its windows is asked for."""
        self._shards = [_TokenShard(folder, shard) for shard in read_shards(folder)]
        self._rows = Lookup.of(folder, "units")
        self._part = lru_cache(_MOST_MAPPED)(_bytes_of)
        told = [shard for shard in self._shards if len(shard.scales)] or self._shards
        self.dimension: int = max((shard.dimension for shard in told), default=0)
        self._width: int = max((shard.width for shard in self._shards), default=0)

    def take(
        self, unit_ids: Sequence[str]
    ) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16], npt.NDArray[np.int64]]:
        """Return token vectors (n, dimension), their scales (n,) and offsets (units + 1,)."""
        found = self.find(unit_ids)
        return found.values(0, len(unit_ids)), found.scales, found.offsets

    def find(self, unit_ids: Sequence[str]) -> FoundTokens:
        """Find the token vectors of units, to read them some at a time."""
        rows = self._rows.find(unit_ids)
        held = self._held(rows)
        sizes = np.zeros(len(rows), np.int64)
        for shard, places, own in held:
            sizes[places] = shard.offsets[own + 1] - shard.offsets[own]
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        scales = np.empty(offsets[-1], np.float16)
        blocks = [_NOWHERE] * len(rows)
        for shard, places, own in held:
            index, _ = take_ragged(shard.offsets, own)
            into, _ = take_ragged(offsets, places)
            scales[into] = shard.scales[index]
            for place, (part, at) in zip(places.tolist(), shard.places(own), strict=True):
                if sizes[place]:
                    blocks[place] = (self._part(part), at)
        return FoundTokens(scales, offsets, self.dimension, blocks)

    def take_vectors(self, unit_ids: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return sentence vectors (units, width) of unit length, or of zeros for rejected rows."""
        rows = self._rows.find(unit_ids)
        vectors = np.zeros((len(rows), self._width), np.float32)
        for shard, places, own in self._held(rows):
            if shard.width:  # else none of its windows has vectors
                vectors[places] = shard.vectors[own]
        return vectors

    def _held(
        self, rows: npt.NDArray[np.int64]
    ) -> list[tuple[_TokenShard, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """The shards that hold some of the rows: their places among these, and in the shard."""
        which = np.searchsorted(self._rows.starts, rows, side="right") - 1
        found = []
        for number in np.unique(which):
            places = np.flatnonzero(which == number)
            own = rows[places] - self._rows.starts[number]
            found.append((self._shards[number], places, own))
        return found


def _check(table: pa.Table, where: Path) -> None:
    """Raise ValueError that names a unit with a non-finite vector or scale."""
    ids = table["unit_id"].to_pylist()
    for unit_id, vector, scale in zip(ids, table["vector"], table["token_scales"], strict=True):
        row = np.frombuffer(vector.as_buffer(), np.float32)[None, :]
        check_finite(row, [unit_id], where)
        scales = np.frombuffer(scale.as_buffer(), np.float16)
        if not np.isfinite(scales).all():
            raise ValueError(f"{where}: a scale of {unit_id} is not finite; run the build again")


def _mapped(path: Path, dtype: type[np.generic], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Map a file of numbers as an array; an empty file cannot be mapped, so the array is new."""
    if not math.prod(shape):
        return np.zeros(shape, dtype)
    # A plain view, since np.memmap is slow to index.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=shape))


def _bytes_of(path: Path) -> npt.NDArray[np.int8]:
    """Map a whole file."""
    return _mapped(path, np.int8, (path.stat().st_size,))
