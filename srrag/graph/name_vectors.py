"""The vectors of the graph's names, in shards that an update links: int8 rows with a scale each.

The rows of all shards, one after another, number the names. A shard never changes, so a name keeps
its number in an update that only adds, and other indexes can point to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.graph_scores import inner_products
from srrag.core.spec import fingerprint, place_field, spec
from srrag.core.step import IncrementalBuild, Place, PreviousVersion
from srrag.graph.facts import normalise
from srrag.graph.nodes import Nodes
from srrag.model.embed import load, quantise_rows
from srrag.model.encoder import Encoder
from srrag.storage.atomic_write import commit, commit_json, link_or_copy, read_json
from srrag.storage.mapped_table import (
    IndexShard,
    map_table,
    read_shards,
    save_table,
    shard_file,
    write_shards,
)
from srrag.storage.mirror import fetch

NAMES, VALUES, SCALES = "names.arrow", "vectors.npy", "scales.npy"
FILES = (NAMES, VALUES, SCALES)
SHARD_NAMES = 1 << 16
_BATCH = 8192
_GROWS = 2

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NameShard:
    """The names of a shard, `id` and `name`, with int8 vectors (n, d) and scales (n,)."""

    names: pa.Table
    values: npt.NDArray[np.int8]
    scales: npt.NDArray[np.float16]

    @classmethod
    def at(cls, folder: Path, number: int) -> NameShard:
        """Map the files of a shard."""
        files = [folder / shard_file(name, number) for name in FILES]
        arrays = (np.load(file, mmap_mode="r", allow_pickle=False) for file in files[1:])
        return cls(map_table(files[0]), *map(np.asarray, arrays))

    def __len__(self) -> int:
        return len(self.values)


class NameVectors:
    """All shards as one table, in the order of their numbers."""

    def __init__(self, folder: Path) -> None:
        """Map the files."""
        self.shards = [NameShard.at(folder, each.number) for each in read_shards(folder)]
        self.starts: Ints = np.cumsum([0, *map(len, self.shards)])
        self.names = pa.concat_tables([shard.names for shard in self.shards])
        self.ids: pa.ChunkedArray = self.names["id"]

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def width(self) -> int:
        """The numbers in a vector; 0 without a shard."""
        return int(self.shards[0].values.shape[1]) if self.shards else 0

    def take(self, rows: Ints, kind: type[np.floating[Any]] = np.float32) -> npt.NDArray[Any]:
        """The vectors of some rows, decoded, in the given order: (rows, d)."""
        found = np.empty((len(rows), self.width), kind)
        shard_of = np.searchsorted(self.starts, rows, "right") - 1
        for number in np.unique(shard_of).tolist():
            shard, places = self.shards[number], np.flatnonzero(shard_of == number)
            for start in range(0, len(places), _BATCH):
                some = places[start : start + _BATCH]
                inside = rows[some] - self.starts[number]
                found[some] = shard.values[inside] * shard.scales[inside, None].astype(np.float32)
        return found

    def products(self, queries: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Inner products of queries (q, d) with all vectors: (q, n)."""
        none = np.zeros((len(queries), 0), np.float32)
        each = [inner_products(shard.values, shard.scales, queries) for shard in self.shards]
        return np.concatenate([none, *each], axis=1) if len(each) > 1 else each[0]


@dataclass(frozen=True)
class _Draft:
    """A shard whose names are written and whose vectors are not.

    Vectors that shards of the former folder hold (`known`, their numbers) are copied.
    """

    folder: Path
    number: int
    encoder: Encoder
    device: str
    threads: int
    former: Path | None
    known: tuple[int, ...]


def encode_names(
    names: pa.Table,
    encoder: Encoder,
    out: Path,
    at: Place,
    former: Path | None = None,
    *,
    shard_names: int = SHARD_NAMES,
) -> int:
    """Write the vectors of names, columns `id` and `name`; returns how many were encoded.

    A name "" gets zeros, equal names are encoded once. Shards of the former folder stay as they
    are, up to the first one that lost a name, or is small; the vectors of all others are copied.
    Several new shards are encoded on the workers of the place.
    """
    before = [] if former is None else read_shards(former)
    stand, loose = _standing(names, before, former, shard_names)
    for shard in stand:
        assert former is not None, "only a former version has shards"
        for name in FILES:
            link_or_copy(*(folder / shard.file(name) for folder in (former, out)))
    # Sorted by name: equal names of several types are encoded once.
    loose = loose.sort_by([("name", "ascending"), ("id", "ascending")])
    number = 1 + max((shard.number for shard in stand), default=-1)
    shards: list[IndexShard] = []
    while len(loose) or not (stand or shards):  # an empty graph has an empty shard
        rows = loose.slice(0, shard_names).combine_chunks()
        shards.append(IndexShard(number + len(shards), (), len(rows)))
        path = out / shards[-1].file(NAMES)
        commit(path, partial(save_table, rows))
        loose = loose.slice(shard_names)
    spread = at.spread if len(shards) > 1 else None
    threads = 1 if spread else max(1, at.threads)
    taken = tuple(shard.number for shard in before[len(stand) :])
    draft = _Draft(out, 0, encoder, at.device, threads, former, taken)
    drafts = [replace(draft, number=shard.number) for shard in shards]
    encoded = spread(_encode_shard, drafts) if spread else [*map(_encode_shard, drafts)]
    write_shards([*stand, *shards], out)
    return sum(encoded)


def _standing(
    names: pa.Table, before: Sequence[IndexShard], former: Path | None, most: int
) -> tuple[list[IndexShard], pa.Table]:
    """The first former shards, which stay, and the names that are in none of them."""
    ids, texts = names["id"], names["name"]
    stand: list[tuple[IndexShard, Ints]] = []
    for shard in before:
        assert former is not None, "only a former version has shards"
        held = map_table(former / shard.file(NAMES))
        rows = pc.index_in(held["id"], value_set=ids)
        same = pc.equal(texts.take(rows), held["name"])
        same = np.asarray(pc.fill_null(same, False))
        if not same.all():
            break
        stand.append((shard, np.asarray(rows).astype(np.int64)))
    loose = np.ones(len(names), np.bool_)
    for _, rows in stand:
        loose[rows] = False
    while stand and stand[-1][0].rows <= min(_GROWS * int(loose.sum()), most - 1):
        loose[stand.pop()[1]] = True
    return [shard for shard, _ in stand], names.filter(pa.array(loose))


def _encode_shard(draft: _Draft) -> int:
    """Write the vectors of a shard; returns how many names it encoded.

    Any worker can run it, and another can repeat it after a crash.
    """
    held = map_table(fetch(draft.folder / shard_file(NAMES, draft.number)))
    ids, names = (held[column].combine_chunks() for column in ("id", "name"))
    model = load(draft.encoder, draft.device, draft.threads)
    values, scales = np.zeros((len(held), model.dim), np.int8), np.zeros(len(held), np.float16)
    missing = np.asarray(pc.not_equal(names, ""))
    for shard in _known(draft):
        before = pc.index_in(ids, value_set=shard.names["id"])
        same = pc.equal(shard.names["name"].take(before), names)
        rows = np.flatnonzero(np.asarray(pc.fill_null(same, False)))
        places = np.asarray(before.take(pa.array(rows))).astype(np.int64)
        values[rows], scales[rows] = shard.values[places], shard.scales[places]
        missing[rows] = False
    new = np.flatnonzero(missing)
    spoken = pc.dictionary_encode(names.take(pa.array(new)))
    texts, codes = spoken.dictionary.to_pylist(), np.asarray(spoken.indices).astype(np.int64)
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(texts) + 1))
    for start in range(0, len(texts), _BATCH):
        some = texts[start : start + _BATCH]
        coded = quantise_rows(model.encode(some))
        own = order[ends[start] : ends[start + len(some)]]  # the rows that bear these names
        values[new[own]], scales[new[own]] = (each[codes[own] - start] for each in coded)
    for name, array in ((VALUES, values), (SCALES, scales)):
        commit(draft.folder / shard_file(name, draft.number), partial(_save, array))
    return len(texts)


def _known(draft: _Draft) -> Iterator[NameShard]:
    for number in draft.known:
        assert draft.former is not None, "only a former version has shards"
        for name in FILES:
            fetch(draft.former / shard_file(name, number))
        yield NameShard.at(draft.former, number)


def _save(array: np.ndarray, path: Path) -> None:
    with path.open("wb") as file:  # np.save would add an ending to the path
        np.save(file, array)


ENCODER = "encoder.json"
"""Whose vectors these are; what continues from them compares it."""


@dataclass(frozen=True, kw_only=True)
class EncodeNames(IncrementalBuild):
    """ENTITIES and EDGES → a vector for each node: an entity that is not an attribute.

    It encodes the normalised name, which added documents do not change; a document, whose name is
    an id, gets zeros. An update encodes only new names, and links the shards whose nodes all stand.
    `shard_names` bounds a shard.
    """

    entities: str = "entities"
    encoder: Encoder = field(default_factory=Encoder)
    shard_names: int = place_field(SHARD_NAMES)

    def write(
        self,
        inputs: Mapping[str, Sequence[Path]],
        out: Path,
        at: Place,
        former: PreviousVersion | None,
    ) -> dict[str, float | int | str]:
        """Write `names-*.arrow`, `vectors-*.npy`, `scales-*.npy`, and whose vectors they are."""
        (graph,) = inputs[self.entities]
        names = _spoken(Nodes.read(graph))
        started = time.perf_counter()
        encoded = encode_names(
            names,
            self.encoder,
            out,
            at,
            former.folder if former else None,
            shard_names=self.shard_names,
        )
        seconds = round(time.perf_counter() - started, 3)
        commit_json(out / ENCODER, {"encoder": fingerprint(spec(self.encoder))})
        return {"names": len(names), "encoded": encoded, "encoding_seconds": seconds}


def vectors_of(
    folder: Path, encoder: Encoder
) -> Callable[[Sequence[str]], dict[str, np.ndarray]] | None:
    """What finds the vectors of names in a build's folder; None if another encoder made them."""
    if read_json(folder / ENCODER)["encoder"] != fingerprint(spec(encoder)):
        return None
    held = NameVectors(folder)

    def found(names: Sequence[str]) -> dict[str, np.ndarray]:
        normal = pa.array([normalise(name) or None for name in names], pa.string())
        rows = pc.index_in(normal, value_set=held.names["name"], skip_nulls=True)
        known = np.flatnonzero(np.asarray(pc.is_valid(rows))).tolist()
        places = np.asarray(rows.drop_null()).astype(np.int64)
        return dict(zip((names[n] for n in known), held.take(places), strict=True))

    return found


def _spoken(nodes: Nodes) -> pa.Table:
    """The `id` and normalised `name` of each node, "" for a document."""
    coded = pc.dictionary_encode(nodes.names)
    texts = pa.array([normalise(name) for name in coded.dictionary.to_pylist()], pa.string())
    names = pc.if_else(pa.array(nodes.is_document), "", texts.take(coded.indices))
    return pa.table({"id": nodes.core_ids, "name": names})
