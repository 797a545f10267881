"""The shards of the dense index: their rows, the codec they share, and their files.

Each function reads the given parts and writes its own files, so any worker can run it, and another
can repeat it after a crash with the same result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.standing import GRADES, counted_as
from srrag.index.opened import Shard, best_of, gpus, to_cpu, to_gpu
from srrag.index.parts import Matrix, check_finite, unpack_vectors
from srrag.index.titles import with_titles
from srrag.storage.atomic_write import commit
from srrag.storage.manifest import read_live
from srrag.storage.mapped_table import save_table
from srrag.storage.mirror import fetch

_TRAINING_ROWS_PER_LIST = 64
_SAMPLED_FROM = 16
_CODE_BITS = 8
_RECALL_QUERIES = 200
_RECALL_DEPTH = 100


@dataclass(frozen=True)
class Part:
    """A part of vectors, of their windows and of titles, and the number of rows of one grade."""

    vectors: Path
    windows: Path
    rows: int = 0
    titles: Path | None = None
    title_weight: float = 0.0


@dataclass(frozen=True)
class Rows:
    """The live rows of one grade in some parts, for a shard or for training a codec."""

    grade: str
    parts: tuple[Part, ...]

    def __len__(self) -> int:
        return sum(part.rows for part in self.parts)


@dataclass(frozen=True)
class ShardSettings:
    """The settings and the folder of shards; BuildDenseIndex describes each."""

    pq_bytes: int | None
    probes: int
    rescored: int
    seed: int
    threads: int
    device: str


@dataclass(frozen=True)
class Codec:
    """An index to train: inverted lists and, with `pq_bytes`, short codes of the vectors."""

    path: Path
    rows: Rows
    lists: int
    settings: ShardSettings


@dataclass(frozen=True)
class Draft:
    """A shard to write; without a codec its vectors are searched exhaustively."""

    path: Path
    rows: Rows
    codec: Path | None
    settings: ShardSettings


@dataclass(frozen=True)
class Made:
    """A written shard: its recall@100 on its own vectors, the size of its index, its parts."""

    rows: int
    recall: float
    num_bytes: int
    device: str
    parts: tuple[str, ...]
    part_rows: tuple[int, ...]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Made:
        """Read one from JSON."""
        lists = {name: tuple(told[name]) for name in ("parts", "part_rows")}
        return cls(**{**told, **lists})


def shard_name(grade: str, number: int) -> str:
    """The name of a shard, without an ending."""
    return f"shard-{grade}-{number:05d}"


def grade_of(name: str) -> str:
    """The grade in the name of a shard."""
    return name.split("-")[1]


def count(parts: Sequence[Part]) -> npt.NDArray[np.int64]:
    """Count the live rows of each grade in each part: (parts, grades)."""
    return np.array(
        [np.bincount(grade_codes(part), minlength=len(GRADES)) for part in parts], np.int64
    ).reshape(-1, len(GRADES))


def train(codec: Codec) -> None:
    """Write the empty index that all shards of a grade start from, trained on a random sample.

    Spherical k-means finds the lists. A code encodes the residual, one byte for an equal share of
    its dimensions (IVFADC: Jégou et al. 2011, doi:10.1109/TPAMI.2010.57, §IV).
    """
    settings = codec.settings
    faiss.omp_set_num_threads(settings.threads)
    matrix = _sample(codec.rows, codec.lists * _TRAINING_ROWS_PER_LIST, settings.seed)
    index: faiss.Index = _empty(matrix.shape[1], codec.lists, settings)
    on_gpu = gpus(settings.device) > 0
    index = to_gpu(index, 0) if on_gpu else index
    index.train(matrix)
    _write_index(to_cpu(index) if on_gpu else index, codec.path)


def _empty(dimension: int, lists: int, settings: ShardSettings) -> faiss.IndexIVF:
    coarse, metric = faiss.IndexFlatIP(dimension), faiss.METRIC_INNER_PRODUCT
    index: faiss.IndexIVF = faiss.IndexIVFFlat(coarse, dimension, lists, metric)
    if settings.pq_bytes is not None:
        if dimension % settings.pq_bytes:
            raise ValueError(
                f"pq_bytes: {settings.pq_bytes} does not divide the dimension, {dimension}"
            )
        coded = faiss.IndexIVFPQ(coarse, dimension, lists, settings.pq_bytes, _CODE_BITS, metric)
        coded.pq.cp.seed = settings.seed + 1
        coded.pq.cp.min_points_per_centroid = 1
        index = coded
    index.cp.seed = settings.seed + 1
    index.cp.min_points_per_centroid = 1  # else FAISS warns of small samples
    return index


def write(draft: Draft) -> Made:
    """Write a shard: its unit ids, its index and, where codes are rescored, its vectors.

    Only the index is held in memory; vectors are read part by part.
    """
    settings, rows = draft.settings, draft.rows
    faiss.omp_set_num_threads(settings.threads)
    gpu = 0 if draft.codec is not None and gpus(settings.device) else None
    ids, index = [], None
    for part, (names, block) in zip(rows.parts, _blocks(rows), strict=True):
        if index is None:
            index = _started(draft.codec, block.shape[1], gpu)
        if block.shape[1] != index.d:
            found = f"vectors of {block.shape[1]} numbers, and {index.d} before"
            raise ValueError(f"{part.vectors}: {found}")
        index.add(block)
        ids.append(names)
    assert index is not None, "a shard has parts"
    if draft.codec is not None and settings.pq_bytes and settings.rescored:
        commit(draft.path.with_suffix(".npy"), partial(_write_vectors, rows))
    commit(draft.path.with_suffix(".arrow"), partial(_write_ids, pa.concat_arrays(ids)))
    _write_index(index if gpu is None else to_cpu(index), draft.path)
    del index
    recall = 1.0
    if draft.codec is not None:
        shard = Shard(draft.path, settings.probes, settings.rescored, gpu)
        recall = _recall(shard, rows, settings.seed)
    size = draft.path.stat().st_size
    device = "cpu" if gpu is None else settings.device
    parts, sizes = zip(*((part.vectors.name, part.rows) for part in rows.parts), strict=True)
    return Made(len(rows), recall, size, device, parts, sizes)


def _started(codec: Path | None, dimension: int, gpu: int | None) -> faiss.Index:
    """The index of a shard, without a vector."""
    if codec is None:
        return faiss.IndexFlatIP(dimension)
    index = faiss.read_index(str(fetch(codec)))
    return index if gpu is None else to_gpu(index, gpu)


def _blocks(rows: Rows) -> Iterator[tuple[pa.Array, Matrix]]:
    for part in rows.parts:
        (table,) = read_live([part.vectors], ("unit_id", "vector"))
        table = table.filter(pa.array(grade_codes(part) == GRADES.index(rows.grade)))
        ids, block = table["unit_id"].combine_chunks(), unpack_vectors(table["vector"])
        check_finite(block, ids, part.vectors)
        if part.titles is not None:
            block = with_titles(block, ids, part.windows, part.titles, part.title_weight)
        yield ids, block


def _sample(rows: Rows, size: int, seed: int) -> Matrix:
    """Sample about `size` vectors from random parts that together hold several times as many."""
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(rows.parts))
    ends = np.cumsum([rows.parts[place].rows for place in order])
    few = order[: 1 + int(np.searchsorted(ends, size * _SAMPLED_FROM))]
    chosen = Rows(rows.grade, tuple(rows.parts[place] for place in sorted(few)))
    return _picked(chosen, draw.permutation(len(chosen))[:size])


def _picked(rows: Rows, numbers: npt.NDArray[np.int64]) -> Matrix:
    """Read the vectors of some rows, by number, in file order."""
    picked = np.zeros(len(rows), np.bool_)
    picked[numbers] = True
    found, start, end = np.zeros((0, 0), np.float32), 0, 0
    for _, block in _blocks(rows):
        own = block[picked[start : start + len(block)]]
        if not start:
            found = np.empty((len(numbers), block.shape[1]), np.float32)
        found[end : end + len(own)] = own
        start, end = start + len(block), end + len(own)
    return found


def grade_codes(part: Part) -> npt.NDArray[np.int8]:
    """Return the index in GRADES of each live row of vectors, from its window."""
    (vector,) = read_live([part.vectors], ("unit_id",))
    (window,) = read_live([part.windows], ("unit_id", "grade"))
    place = pc.index_in(vector["unit_id"], value_set=window["unit_id"].combine_chunks())
    if place.null_count:
        lost = vector["unit_id"].filter(pc.is_null(place))[0]
        raise ValueError(f"{part.vectors}: {lost} has a vector and no window; run the build again")
    codes = pc.index_in(counted_as(window["grade"]), value_set=pa.array(GRADES))
    return np.asarray(codes.take(place)).astype(np.int8)


def _recall(shard: Shard, rows: Rows, seed: int) -> float:
    numbers = np.random.default_rng(seed).permutation(len(rows))[:_RECALL_QUERIES]
    queries, depth = _picked(rows, numbers), min(_RECALL_DEPTH, len(rows))
    found = [best_of([shard], [hits], depth)[0] for hits in shard.search(queries, depth)]
    shared = [
        pc.is_in(ids, value_set=shard.ids.take_column(best, "unit_id")).true_count
        for ids, best in zip(found, _nearest(queries, rows, depth), strict=True)
    ]
    return float(np.mean(shared)) / depth


def _nearest(queries: Matrix, rows: Rows, depth: int) -> npt.NDArray[np.int64]:
    """The numbers of the nearest rows of each query by exact search, in no order."""
    scores = np.zeros((len(queries), 0), np.float32)
    nearest, start = np.zeros((len(queries), 0), np.int64), 0
    for _, block in _blocks(rows):
        more, near = faiss.knn(queries, block, min(depth, len(block)), faiss.METRIC_INNER_PRODUCT)
        scores = np.concatenate([scores, more], axis=1)
        nearest = np.concatenate([nearest, start + near], axis=1)
        start += len(block)
        if scores.shape[1] > depth:
            best = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
            scores = np.take_along_axis(scores, best, 1)
            nearest = np.take_along_axis(nearest, best, 1)
    return nearest


def _write_index(index: faiss.Index, path: Path) -> None:
    commit(path, lambda temporary: faiss.write_index(index, str(temporary)))


def _write_ids(ids: pa.Array, path: Path) -> None:
    save_table(pa.table({"unit_id": ids}), path)


def _write_vectors(rows: Rows, path: Path) -> None:
    """Write vectors as one array, block by block."""
    with path.open("wb") as file:
        for _, block in _blocks(rows):
            if not file.tell():
                told = {
                    "descr": "<f4",
                    "fortran_order": False,
                    "shape": (len(rows), block.shape[1]),
                }
                write_header: Any = np.lib.format.write_array_header_1_0  # some NumPys type it not
                write_header(file, told)
            file.write(block.tobytes())
