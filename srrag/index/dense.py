"""Dense index: FAISS, exact up to a size, inverted lists above it, its shards parted by grade."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import faiss
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.index.grades import GRADES, counted_as
from srrag.index.parts import read_live
from srrag.step import Build, Place

Matrix = npt.NDArray[np.float32]
Ranked = tuple[pa.Array, npt.NDArray[np.float32]]
"""Ids and scores of one search, best first."""

SCORE_DECIMALS = 5
"""Rankings sort by the score rounded to this many decimals, then by id."""

_TRAINING_ROWS_PER_LIST = 64
_RECALL_QUERIES = 200
_RECALL_DEPTH = 100


@dataclass(frozen=True, kw_only=True)
class BuildDenseIndex(Build):
    """Inner-product search over L2-normalised vectors, each grade a partition of its own.

    A partition of up to `flat_rows` windows is searched exactly. Above, each of its shards has
    4·√n inverted lists, of which `probes` are searched; the recall@100 against the exact search is
    measured on 200 of its own vectors and reported, the mean over all windows. `shard_rows` bounds
    the memory of the build, which reads the vectors once a grade. Raises ValueError for a vector
    without a window.
    """

    version: ClassVar[int] = 2

    vectors: str = "vectors"
    windows: str = "windows"
    flat_rows: int = 200_000
    probes: int = 64
    shard_rows: int = 500_000
    seed: int = 0

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `shard-<grade>-*.faiss`, the unit ids beside them and `index.json`."""
        faiss.omp_set_num_threads(max(1, at.threads))
        paths = inputs[self.vectors]
        grades = [*_grades(paths, inputs[self.windows])]
        total = sum(map(len, grades))
        if total == 0:
            raise ValueError("there is no window to index")
        recalls, sizes, exact = [], [], 0
        for number, grade in enumerate(GRADES):
            chosen = [column == number for column in grades]
            flat = sum(int(rows.sum()) for rows in chosen) <= self.flat_rows
            for shard, (ids, matrix) in enumerate(self._shards(paths, chosen)):
                path = out / f"shard-{grade}-{shard:05d}.faiss"
                recalls.append(self._write(matrix, flat, path))
                _write_ids(ids, path.with_suffix(".arrow"))
                sizes.append(len(ids))
                exact += len(ids) if flat else 0
        (out / "index.json").write_text(json.dumps({"probes": self.probes}))
        return {
            "windows": total,
            "exact": exact,
            "shards": len(sizes),
            "recall_at_100": round(float(np.average(recalls, weights=sizes)), 4),
        }

    def _write(self, matrix: Matrix, flat: bool, path: Path) -> float:
        """Write a shard; returns its recall against the exact search."""
        index: faiss.Index = faiss.IndexFlatIP(matrix.shape[1])
        index.add(matrix)
        if flat:
            faiss.write_index(index, str(path))
            return 1.0
        inverted = self._inverted(matrix)
        faiss.write_index(inverted, str(path))
        return _recall(inverted, index, matrix, self.seed)

    def _inverted(self, matrix: Matrix) -> faiss.IndexIVFFlat:
        rows, dimension = matrix.shape
        lists = max(1, int(4 * np.sqrt(rows)))
        index = faiss.IndexIVFFlat(
            faiss.IndexFlatIP(dimension), dimension, lists, faiss.METRIC_INNER_PRODUCT
        )
        index.cp.seed = self.seed + 1
        sample = np.random.default_rng(self.seed).permutation(rows)
        index.train(matrix[np.sort(sample[: lists * _TRAINING_ROWS_PER_LIST])])
        index.add(matrix)
        index.nprobe = min(self.probes, lists)
        return index

    def _shards(
        self, paths: Sequence[Path], chosen: Sequence[npt.NDArray[np.bool_]]
    ) -> Iterator[tuple[list[str], Matrix]]:
        """Ids and vectors of the chosen rows of all parts, in blocks of `shard_rows` or more."""
        ids: list[str] = []
        blocks: list[Matrix] = []
        for path, rows in zip(paths, chosen, strict=True):
            if not rows.any():
                continue
            (table,) = read_live([path], ("unit_id", "vector"))
            table = table.filter(pa.array(rows))
            ids.extend(table["unit_id"].to_pylist())
            blocks.append(unpack_vectors(table["vector"]))
            if len(ids) >= self.shard_rows:
                yield ids, np.concatenate(blocks)
                ids, blocks = [], []
        if ids:
            yield ids, np.concatenate(blocks)


def _grades(vectors: Sequence[Path], windows: Sequence[Path]) -> Iterator[npt.NDArray[np.int8]]:
    """For each part of vectors the place in GRADES of each live row, from the part of windows."""
    if [path.name for path in vectors] != [path.name for path in windows]:
        raise ValueError("vectors and windows are not parts of the same names; run the build again")
    for path, vector, window in zip(
        vectors,
        read_live(vectors, ("unit_id",)),
        read_live(windows, ("unit_id", "grade")),
        strict=True,
    ):
        place = pc.index_in(vector["unit_id"], value_set=window["unit_id"].combine_chunks())
        if place.null_count:
            lost = vector["unit_id"].filter(pc.is_null(place))[0]
            raise ValueError(f"{path}: {lost} has a vector and no window; run the build again")
        codes = pc.index_in(counted_as(window["grade"]), value_set=pa.array(GRADES))
        yield np.asarray(codes.take(place)).astype(np.int8)


def unpack_vectors(column: pa.ChunkedArray) -> Matrix:
    """Binary rows of equal length → (rows, dimension) float32."""
    rows = column.to_pylist()
    return np.frombuffer(b"".join(rows), dtype=np.float32).reshape(len(rows), -1)


def _recall(tested: faiss.Index, exact: faiss.Index, matrix: Matrix, seed: int) -> float:
    rows = np.random.default_rng(seed).permutation(len(matrix))[:_RECALL_QUERIES]
    depth = min(_RECALL_DEPTH, len(matrix))
    _, found = tested.search(matrix[rows], depth)
    _, truth = exact.search(matrix[rows], depth)
    shared = [np.intersect1d(a, b).size for a, b in zip(found, truth, strict=True)]
    return float(np.mean(shared)) / depth


def _write_ids(ids: Sequence[str], path: Path) -> None:
    table = pa.table({"unit_id": ids})
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


class DenseIndex:
    """The opened dense index: memory-mapped shards of every grade."""

    def __init__(self, folder: Path, threads: int = 1) -> None:
        """Map the shards; their hashes were checked against the manifest by the opener."""
        faiss.omp_set_num_threads(max(1, threads))
        probes = json.loads((folder / "index.json").read_text())["probes"]
        self.shards: dict[str, list[tuple[faiss.Index, pa.Array]]] = {g: [] for g in GRADES}
        for path in sorted(folder.glob("shard-*.faiss")):
            grade = path.name.split("-")[1]
            if grade not in GRADES:
                raise ValueError(f"{path}: a shard of no grade; run the build again")
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
            if isinstance(index, faiss.IndexIVF):
                index.nprobe = min(probes, index.nlist)
            ids = pa.ipc.open_file(pa.memory_map(str(path.with_suffix(".arrow")))).read_all()
            self.shards[grade].append((index, ids["unit_id"].combine_chunks()))
            self.dimension = int(index.d)

    def search(self, queries: Matrix, k: int, grades: Sequence[str] = ()) -> list[Ranked]:
        """The k best units of these grades, all by default, for each query (n, dimension)."""
        shards = [shard for grade in grades or GRADES for shard in self.shards[grade]]
        found = [(_search(index, queries, k), ids) for index, ids in shards]
        results = []
        for row in range(len(queries)):
            hits = [
                (names.take(pa.array(rows[row][rows[row] >= 0])), scores[row][rows[row] >= 0])
                for (scores, rows), names in found
            ]
            results.append(rank(*_joined(hits), k))
        return results


def pool(found: Sequence[Ranked], k: int) -> Ranked:
    """The k best of several searches, each unit by its best score."""
    ids, scores = _joined(found)
    coded = ids.dictionary_encode()
    best = np.full(len(coded.dictionary), -np.inf, np.float32)
    np.maximum.at(best, np.asarray(coded.indices), scores)
    return rank(coded.dictionary, best, k)


def _joined(found: Sequence[Ranked]) -> Ranked:
    ids = pa.concat_arrays([pa.array([], pa.string()), *(ids for ids, _ in found)])
    scores = [np.zeros(0, np.float32), *(scores for _, scores in found)]
    return ids, np.concatenate(scores).astype(np.float32)


def _search(index: faiss.Index, queries: Matrix, k: int) -> tuple[Matrix, npt.NDArray[np.int64]]:
    """The k best of a shard and all that tie with the last: which of those stay goes by id."""
    depth = min(k + 1, index.ntotal)
    while True:
        scores, rows = index.search(queries, depth)
        more = tied(scores[:, min(k, depth) - 1], scores[:, -1]) & (rows[:, -1] >= 0)
        if depth == index.ntotal or not more.any():
            return scores, rows
        depth = min(2 * depth, index.ntotal)


def tied(first: Any, second: Any) -> Any:
    """Whether two scores are one to the ranking."""
    return np.round(first, SCORE_DECIMALS) == np.round(second, SCORE_DECIMALS)


def rank(ids: pa.Array, scores: Matrix, k: int) -> tuple[pa.Array, Matrix]:
    """Order by rounded score, then by id, and keep k: the same order in any batch."""
    order = np.lexsort((np.asarray(ids), -np.round(scores, SCORE_DECIMALS)))[:k]
    return ids.take(pa.array(order)), scores[order]
