"""Indexes, each opened with the engine that wrote it: vectors by FAISS, or LanceDB's tables."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.core.hits import Ranked, merge, rank, tied
from srrag.core.standing import GRADES
from srrag.index.parts import Matrix
from srrag.index.sparse import SparseIndex
from srrag.index.words import TITLE_WEIGHT, WordIndex
from srrag.storage.atomic_write import read_json
from srrag.storage.mapped_table import MappedTable, map_table

MAX_DEPTH = 2048
"""Maximum of hits and of probed lists of a search: the limit of FAISS's GPU kernels."""

_TEMPORARY_BYTES = 256 * 2**20
_SHARED_TABLE_CODES = 48
_log = logging.getLogger(__name__)


@functools.cache
def gpus(device: str) -> int:
    """Return how many GPUs FAISS may use; warns once if the device is a GPU and there is none."""
    if device == "cpu":
        return 0
    found = int(faiss.get_num_gpus())
    if not found:
        _log.warning(
            "device=%s, but FAISS finds no GPU (faiss-gpu, and a GPU of this process): "
            "the dense index is on the CPU",
            device,
        )
    return found


def to_gpu(index: faiss.Index, number: int) -> faiss.Index:
    """Copy an index to a GPU with its number of probed lists, capped at 2048."""
    options = faiss.GpuClonerOptions()
    if isinstance(index, faiss.IndexIVF):
        index.nprobe = min(index.nprobe, MAX_DEPTH)
    if isinstance(index, faiss.IndexIVFPQ):
        # Tables of longer codes fit a block's shared memory (48 KiB) only as float16.
        options.useFloat16 = index.pq.M > _SHARED_TABLE_CODES
    return faiss.index_cpu_to_gpu(_resources(number), number, index, options)


def to_cpu(index: faiss.Index) -> faiss.Index:
    """Copy an index back to the CPU, to write it to disk."""
    return faiss.index_gpu_to_cpu(index)


@functools.cache
def _resources(number: int) -> Any:
    """Return the scratch memory of a GPU, shared by all its indexes; the models need the rest."""
    resources = faiss.StandardGpuResources()
    resources.setTempMemory(_TEMPORARY_BYTES)
    return resources


Nearest = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]
"""Rows of a shard and their scores."""


class Shard:
    """One opened shard: its index, its ids and, for short codes, its vectors."""

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
        self.ids = MappedTable.at(path.with_suffix(".arrow"))

    def search(self, queries: Matrix, k: int) -> list[Nearest]:
        """Return at least the k best of each query, unordered."""
        return self._nearest(queries, k) if self.vectors is None else self._rescored(queries, k)

    def _nearest(self, queries: Matrix, k: int) -> list[Nearest]:
        """Return the k best and all ties with the last; the ranking decides ties by id."""
        depth = min(k + 1, self.most)
        while True:
            scores, rows = self.index.search(queries, depth)
            scores[rows < 0] = -np.inf  # no hit; FAISS returns the lowest float32
            more = tied(scores[:, min(k, depth) - 1], scores[:, -1]) & (rows[:, -1] >= 0)
            if depth == self.most or not more.any():
                break
            depth = min(2 * depth, self.most)
        return [(row[row >= 0], score[row >= 0]) for row, score in zip(rows, scores, strict=True)]

    def _rescored(self, queries: Matrix, k: int) -> list[Nearest]:
        """Return several times k of the best by code, with exact inner products."""
        assert self.vectors is not None
        _, rows = self.index.search(queries, min(k * self.rescored, self.most))
        # In file order, which is fastest to read from a disk.
        found = [np.sort(row[row >= 0]) for row in rows]
        return [
            (row, np.einsum("nd,d->n", self.vectors[row], query))
            for row, query in zip(found, queries, strict=True)
        ]


class DenseIndex:
    """The shards of every grade, memory-mapped, or on the GPUs of the place."""

    def __init__(self, folder: Path, threads: int = 1, device: str = "cpu") -> None:
        """Open the shards; the caller has checked their hashes against the manifest."""
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
        """Return the k best units for each query (n, dimension); no grades means all."""
        shards = [shard for grade in grades or GRADES for shard in self.shards[grade]]
        found = [shard.search(queries, k) for shard in shards]
        return [best_of(shards, [hits[row] for hits in found], k) for row in range(len(queries))]


def best_of(shards: Sequence[Shard], found: Sequence[Nearest], k: int) -> Ranked:
    """The k best of what some shards found; ids are read of these and their ties alone."""
    scores = np.concatenate([np.zeros(0, np.float32), *(scores for _, scores in found)])
    least = np.partition(scores, -k)[-k] if len(scores) > k else -np.inf
    picked = []
    for shard, (rows, own) in zip(shards, found, strict=True):
        kept = (own >= least) | tied(own, least)
        picked.append((shard.ids.take_column(rows[kept], "unit_id"), own[kept]))
    return merge(picked, k)


SETTINGS = "lance.json"
TABLE = "windows"
TERMS = "terms.arrow"
NOTHING: Ranked = (pa.array([], pa.string()), np.zeros(0, np.float32))


def lancedb() -> Any:
    """The package; raises ValueError that says how to install it."""
    if importlib.util.find_spec("lancedb") is None:
        raise ValueError("index=lancedb needs: pip install 'srrag[lancedb]'")
    os.environ.setdefault("LANCE_LOG", "error")  # lancedb warns about each new table
    return importlib.import_module("lancedb")


def opened(folder: Path) -> tuple[Any, dict[str, Any]]:
    """The table in a build's folder, and the build's settings."""
    settings: dict[str, Any] = read_json(folder / SETTINGS)
    return lancedb().connect(str(folder)).open_table(TABLE), settings


def of_grades(query: Any, grades: Sequence[str]) -> Any:
    """Restrict a query to some grades before it ranks; no grades means all."""
    if not grades:
        return query
    named = ", ".join(f"'{grade}'" for grade in grades)
    return query.where(f"grade IN ({named})", prefilter=True)


def best(fetch: Callable[[int], Ranked], k: int) -> Ranked:
    """The k best of a search that returns as many as requested.

    All ties with the last are fetched; the ranking decides them by id.
    """
    depth = k + 1
    while True:
        ids, scores = fetch(depth)
        if len(ids) < depth or not tied(scores[k - 1], scores[-1]):
            return rank(ids, scores, k)
        depth *= 2


def taken(query: Any, depth: int, column: str) -> tuple[pa.Array, np.ndarray]:
    """Unit ids and a column of numbers of the first hits."""
    found = query.select(["unit_id", column]).limit(depth).to_arrow()
    return found["unit_id"].combine_chunks(), np.asarray(found[column], np.float32)


class LanceDense:
    """Windows by the inner product of vectors, exact or by inverted lists."""

    def __init__(self, folder: Path) -> None:
        """Open the table; its files stay on disk."""
        self._table, settings = opened(folder)
        self.dimension = int(settings["dimension"])
        self._probes, self._refine = settings["probes"], settings["refine"]

    def search(self, queries: Matrix, k: int, grades: Sequence[str] = ()) -> list[Ranked]:
        """Return the k best units for each query (n, dimension); no grades means all."""
        return [best(self._fetch(query, grades), k) for query in queries]

    def _fetch(self, vector: np.ndarray, grades: Sequence[str]) -> Callable[[int], Ranked]:
        def fetch(depth: int) -> Ranked:
            query = self._table.search(vector).distance_type("dot")
            if self._probes:
                query = query.nprobes(self._probes)
            if self._refine:
                query = query.refine_factor(self._refine)
            ids, distances = taken(of_grades(query, grades), depth, "_distance")
            return ids, 1 - distances

        return fetch


class LanceSparse(WordIndex):
    """Windows by BM25, whose terms are those of this package's own index."""

    def __init__(self, folder: Path, title_weight: float) -> None:
        """Open the table, and map how many windows hold each term."""
        super().__init__()
        self._table, settings = opened(folder)
        self._rows, self._titled = int(settings["rows"]), bool(settings["titled"])
        self._title_weight = title_weight
        table = map_table(folder / TERMS)
        self._terms, self._counts = table["term"].chunk(0), np.asarray(table["windows"])

    def __len__(self) -> int:
        """Number of windows."""
        return self._rows

    def document_frequency(self, term: str) -> int:
        """How many windows hold an indexed term, by binary search."""
        low, high = 0, len(self._terms)
        while low < high:
            middle = (low + high) // 2
            if self._terms[middle].as_py() < term:
                low = middle + 1
            else:
                high = middle
        there = low < len(self._terms) and self._terms[low].as_py() == term
        return int(self._counts[low]) if there else 0

    def _search(self, question: str, k: int, grades: Sequence[str]) -> Ranked:
        terms = [term for term in dict.fromkeys(self.terms(question)) if term.isprintable()]
        if not terms:
            return NOTHING
        asked = self._asked(" ".join(terms))

        def fetch(depth: int) -> Ranked:
            query = self._table.search(asked, query_type="fts")
            return taken(of_grades(query, grades), depth, "_score")

        return best(fetch, k)

    def _asked(self, terms: str) -> Any:
        """BM25 of the text, plus that of the title by its weight."""
        kinds = importlib.import_module("lancedb.query")
        text = kinds.MatchQuery(terms, "text")
        if not self._titled or not self._title_weight:
            return text
        title = kinds.MatchQuery(terms, "title", boost=self._title_weight)
        return kinds.BooleanQuery([(kinds.Occur.SHOULD, each) for each in (text, title)])


def open_dense(folder: Path, threads: int = 1, device: str = "cpu") -> DenseIndex | LanceDense:
    """The vectors' index of a build; raises ValueError if its engine is not installed."""
    if (folder / SETTINGS).exists():
        return LanceDense(folder)
    return DenseIndex(folder, threads, device)


def open_sparse(folder: Path, title_weight: float = TITLE_WEIGHT) -> WordIndex:
    """The words' index of a build; raises ValueError if its engine is not installed."""
    if (folder / SETTINGS).exists():
        return LanceSparse(folder, title_weight)
    return SparseIndex(folder, title_weight)
