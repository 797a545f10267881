"""The opened dense index: a search is scattered over the shards and gathered into one ranking."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import faiss
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.index.faiss_gpu import MAX_DEPTH, gpus, to_gpu
from srrag.index.grades import GRADES
from srrag.index.parts import Matrix
from srrag.index.ranking import Ranked, merge, tied
from srrag.storage.atomic_write import read_json


class Shard:
    """One opened shard: its index, its ids and, where its codes are short, its vectors."""

    def __init__(self, path: Path, probes: int, rescored: int = 0, gpu: int | None = None) -> None:
        """Map the files, or copy the index to a GPU."""
        index = faiss.read_index(str(path), 0 if gpu is not None else faiss.IO_FLAG_MMAP_IFC)
        if isinstance(index, faiss.IndexIVF):
            index.nprobe = min(probes, index.nlist)
        exact = path.with_suffix(".npy")
        self.vectors: Matrix | None = None
        if rescored and exact.exists():
            self.vectors = np.load(exact, mmap_mode="r")
        self.rescored = rescored
        self.index = index if gpu is None else to_gpu(index, gpu)
        self.most = self.index.ntotal if gpu is None else min(self.index.ntotal, MAX_DEPTH)
        ids = pa.ipc.open_file(pa.memory_map(str(path.with_suffix(".arrow")))).read_all()
        self.ids: pa.Array = ids["unit_id"].combine_chunks()

    def search(self, queries: Matrix, k: int) -> list[Ranked]:
        """For each query the k best, and more, in no order."""
        found = self._nearest(queries, k) if self.vectors is None else self._rescored(queries, k)
        return [(self.ids.take(pa.array(rows)), scores) for rows, scores in found]

    def _nearest(
        self, queries: Matrix, k: int
    ) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
        """The k best and all that tie with the last: which of those stay goes by id."""
        depth = min(k + 1, self.most)
        while True:
            scores, rows = self.index.search(queries, depth)
            scores[rows < 0] = -np.inf  # no hit; FAISS has the least float32 there
            more = tied(scores[:, min(k, depth) - 1], scores[:, -1]) & (rows[:, -1] >= 0)
            if depth == self.most or not more.any():
                break
            depth = min(2 * depth, self.most)
        return [(row[row >= 0], score[row >= 0]) for row, score in zip(rows, scores, strict=True)]

    def _rescored(
        self, queries: Matrix, k: int
    ) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
        """The best by their codes, several times k, with the inner product of their vectors."""
        assert self.vectors is not None
        _, rows = self.index.search(queries, min(k * self.rescored, self.most))
        # In the order of the file, which is the order in which a disk reads best.
        found = [np.sort(row[row >= 0]) for row in rows]
        return [
            (row, np.einsum("nd,d->n", self.vectors[row], query))
            for row, query in zip(found, queries, strict=True)
        ]


class DenseIndex:
    """The shards of every grade, memory-mapped, or on the GPUs of the place."""

    def __init__(self, folder: Path, threads: int = 1, device: str = "cpu") -> None:
        """Open the shards; their hashes were checked against the manifest by the opener."""
        faiss.omp_set_num_threads(max(1, threads))
        settings = read_json(folder / "index.json")
        if not {"probes", "rescored"} <= settings.keys():
            raise ValueError(f"{folder}: an index of another version; run the build again")
        self.gpus = gpus(device)
        self.shards: dict[str, list[Shard]] = {grade: [] for grade in GRADES}
        for number, path in enumerate(sorted(folder.glob("shard-*.faiss"))):
            grade = path.name.split("-")[1]
            if grade not in GRADES:
                raise ValueError(f"{path}: a shard of no grade; run the build again")
            gpu = number % self.gpus if self.gpus else None
            shard = Shard(path, settings["probes"], settings["rescored"], gpu)
            self.shards[grade].append(shard)
            self.dimension = int(shard.index.d)

    def search(self, queries: Matrix, k: int, grades: Sequence[str] = ()) -> list[Ranked]:
        """The k best units of these grades, all by default, for each query (n, dimension)."""
        shards = [shard for grade in grades or GRADES for shard in self.shards[grade]]
        found = [shard.search(queries, k) for shard in shards]
        return [merge([hits[row] for hits in found], k) for row in range(len(queries))]
