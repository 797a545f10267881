"""Dense index: FAISS, exact up to a size, inverted lists above it, written shard by shard."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.index.parts import read_live
from srrag.step import Build, Place

Matrix = npt.NDArray[np.float32]

SCORE_DECIMALS = 5
"""Rankings sort by the score rounded to this many decimals, then by id."""

_TRAINING_ROWS_PER_LIST = 64
_RECALL_QUERIES = 200
_RECALL_DEPTH = 100


@dataclass(frozen=True, kw_only=True)
class BuildDenseIndex(Build):
    """Inner-product search over L2-normalised vectors.

    Up to `flat_rows` windows the search is exact. Above, each shard has 4·√n inverted lists, of
    which `probes` are searched; the recall@100 against the exact search is measured on 200 of
    its own vectors and reported. `shard_rows` bounds the memory of the build.
    """

    vectors: str = "vectors"
    flat_rows: int = 200_000
    probes: int = 64
    shard_rows: int = 500_000
    seed: int = 0

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `shard-*.faiss`, the unit ids beside them and `index.json`."""
        faiss.omp_set_num_threads(max(1, at.threads))
        paths = inputs[self.vectors]
        total = sum(table.num_rows for table in read_live(paths, ("unit_id",)))
        if total == 0:
            raise ValueError("there is no window to index")
        flat = total <= self.flat_rows
        recalls, sizes = [], []
        for number, (ids, matrix) in enumerate(self._shards(paths)):
            index: faiss.Index = faiss.IndexFlatIP(matrix.shape[1])
            index.add(matrix)
            if not flat:
                inverted = self._inverted(matrix)
                recalls.append(_recall(inverted, index, matrix, self.seed))
                index = inverted
            faiss.write_index(index, str(out / f"shard-{number:05d}.faiss"))
            _write_ids(ids, out / f"shard-{number:05d}.arrow")
            sizes.append(len(ids))
        figures = {
            "kind": "flat" if flat else "ivf",
            "windows": total,
            "shards": len(sizes),
            "recall_at_100": round(float(np.average(recalls, weights=sizes)), 4)
            if recalls
            else 1.0,
        }
        (out / "index.json").write_text(json.dumps({**figures, "probes": self.probes}))
        return figures

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

    def _shards(self, paths: Sequence[Path]) -> Iterator[tuple[list[str], Matrix]]:
        ids: list[str] = []
        blocks: list[Matrix] = []
        for table in read_live(paths, ("unit_id", "vector")):
            if not table.num_rows:
                continue
            ids.extend(table["unit_id"].to_pylist())
            blocks.append(unpack_vectors(table["vector"]))
            if len(ids) >= self.shard_rows:
                yield ids, np.concatenate(blocks)
                ids, blocks = [], []
        if ids:
            yield ids, np.concatenate(blocks)


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
    """The opened dense index: memory-mapped shards."""

    def __init__(self, folder: Path, threads: int = 1) -> None:
        """Map the shards; their hashes were checked against the manifest by the opener."""
        faiss.omp_set_num_threads(max(1, threads))
        probes = json.loads((folder / "index.json").read_text())["probes"]
        self.shards = []
        for path in sorted(folder.glob("shard-*.faiss")):
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
            if isinstance(index, faiss.IndexIVF):
                index.nprobe = min(probes, index.nlist)
            ids = pa.ipc.open_file(pa.memory_map(str(path.with_suffix(".arrow")))).read_all()
            self.shards.append((index, ids["unit_id"].combine_chunks()))

    def search(self, queries: Matrix, k: int) -> list[tuple[pa.Array, Matrix]]:
        """For each query (n, dimension) its k best units: ids and scores, best first."""
        found = [(_search(index, queries, k), ids) for index, ids in self.shards]
        results = []
        for row in range(len(queries)):
            ids = pa.concat_arrays(
                [names.take(pa.array(rows[row][rows[row] >= 0])) for (_, rows), names in found]
            )
            scores = np.concatenate(
                [scores[row][rows[row] >= 0] for (scores, rows), _ in found]
            ).astype(np.float32)
            results.append(rank(ids, scores, k))
        return results


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
