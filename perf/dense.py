"""`python -m perf.dense`: what each kind of the dense index finds, holds and costs.

The vectors are those of a root (`--root`), or drawn: clouds about centres about centres, the spread
of their axes falling as that of MiniLM's vectors does. 500 that are not indexed are the questions.
Prints three JSON objects: for each kind recall@10 and @100 against the exact search, the recall
that the build reports, bytes a vector, CPU seconds of the build, and CPU milliseconds a question;
then shards that share a codec against shards with one each; then Ray, one shard at a time and two.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import ray

from srrag.ids import content_id
from srrag.index.dense import BuildDenseIndex
from srrag.index.dense_search import DenseIndex
from srrag.index.dense_shards import cut, train, write
from srrag.index.parts import Matrix, unpack_vectors
from srrag.runner.ray.map import over_ray
from srrag.step import Place
from srrag.storage.atomic_write import commit_json, write_parquet
from srrag.storage.read_live import read_live

DIMENSION, QUESTIONS, PART_ROWS, SHARDS, ROUNDS = 384, 500, 500, 4, 7
KINDS: Mapping[str, Mapping[str, Any]] = {
    "exact": {"flat_rows": 10**9},
    "lists": {"flat_rows": 256},
    **{f"lists, {size} bytes": {"flat_rows": 256, "pq_bytes": size} for size in (24, 48, 96)},
}


def drawn(rows: int, seed: int = 0) -> Matrix:
    """Unit vectors about 2,000 centres, which lie about 100 others."""
    draw = np.random.default_rng(seed)
    axes = np.arange(1, DIMENSION + 1) ** -0.4

    def cloud(count: int, scale: float) -> Any:
        return scale * draw.standard_normal((count, DIMENSION), np.float32) * axes

    centres = cloud(100, 1.0)[draw.integers(0, 100, 2000)] + cloud(2000, 0.7)
    matrix = centres[draw.integers(0, 2000, rows)] + cloud(rows, 0.7)
    return np.asarray(matrix / np.linalg.norm(matrix, axis=1, keepdims=True), np.float32)


def read(root: Path) -> Matrix:
    """The distinct vectors of a root, in random order."""
    paths = sorted((root / "stages" / "vectors").glob("*/part-*.parquet"))
    blocks = [unpack_vectors(table["vector"]) for table in read_live(paths, ("vector",))]
    return np.random.default_rng(0).permutation(np.unique(np.concatenate(blocks), axis=0))


def write_parts(matrix: Matrix, folder: Path) -> dict[str, list[Path]]:
    """Vectors and windows as a build reads them, in parts of 500 rows of one grade."""
    inputs: dict[str, list[Path]] = {"vectors": [], "windows": []}
    for start in range(0, len(matrix), PART_ROWS):
        block = matrix[start : start + PART_ROWS]
        ids = [content_id(str(start + n)) for n in range(len(block))]
        columns = {"vectors": ("vector", [v.tobytes() for v in block])}
        columns["windows"] = ("grade", ["E"] * len(block))
        for name, (column, values) in columns.items():
            path = folder / name / f"part-{start:08d}.parquet"
            path.parent.mkdir(exist_ok=True, parents=True)
            write_parquet(pa.table({"unit_id": ids, column: values}), path)
            inputs[name].append(path)
    return inputs


def timed(call: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> Any:
    """Return the result of a call and its seconds."""
    start = clock()
    value = call()
    return value, clock() - start


def recall(found: Sequence[Any], truth: Sequence[Any], depth: int) -> float:
    """The mean share of the best `depth` that were found."""
    pairs = zip(found, truth, strict=True)
    shared = [len({*a[:depth].to_pylist()} & {*b[:depth].to_pylist()}) for (a, _), (b, _) in pairs]
    return round(float(np.mean(shared)) / depth, 3)


def kinds(inputs: dict[str, list[Path]], queries: Matrix, folder: Path) -> dict[str, Any]:
    """Each kind as one shard; codes are ranked by themselves, and then by their vectors."""
    report: dict[str, Any] = {}
    truth: Sequence[Any] = []
    for name, fields in KINDS.items():
        (folder / name).mkdir()
        build = BuildDenseIndex(**{**fields, "shard_rows": 10**9})
        figures, seconds = timed(partial(build.build, inputs, folder / name, Place()))
        found, row = searched(folder / name, queries, truth)
        truth = truth or found
        report[name] = {
            **row, "reported": figures["recall_at_100"], "bytes": figures["bytes_per_vector"],
            "build_cpu_s": round(seconds, 1),
        }  # fmt: skip
        if build.pq_bytes:
            commit_json(folder / name / "index.json", {"probes": build.probes, "rescored": 0})
            report[name]["by_codes_alone"] = searched(folder / name, queries, truth)[1]
    return report


def searched(folder: Path, queries: Matrix, truth: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
    """What an index finds, question by question: its recall and CPU milliseconds a question."""
    index = DenseIndex(folder)
    index.search(queries, 100)  # the files are read once
    single = [queries[n : n + 1] for n in range(len(queries))]
    found, seconds = timed(lambda: [index.search(query, 100)[0] for query in single])
    recalls = {f"recall_{k}": recall(found, truth or found, k) for k in (10, 100)}
    return found, {**recalls, "query_cpu_ms": round(1000 * seconds / len(queries), 2)}


def codecs(inputs: dict[str, list[Path]], queries: Matrix, folder: Path) -> dict[str, Any]:
    """Four shards of 48-byte codes: trained together, and each for itself."""
    rows = -(-len(inputs["vectors"]) // SHARDS) * PART_ROWS
    build = BuildDenseIndex(flat_rows=256, pq_bytes=48, rescored=0, shard_rows=rows)
    (folder / "flat").mkdir()
    BuildDenseIndex(flat_rows=10**9).build(inputs, folder / "flat", Place())
    truth, _ = searched(folder / "flat", queries, ())
    report = {}
    for name in ("shared", "own"):
        out = folder / name
        out.mkdir()
        planned, drafts = build.plan(inputs, out, Place())
        if name == "own":
            (one,) = planned
            shards = cut(one.rows, rows)
            planned = [
                replace(one, path=out / f"codec-{n}.faiss", rows=shard)
                for n, shard in enumerate(shards)
            ]
            pairs = zip(drafts, planned, strict=True)
            drafts = [replace(draft, codec=codec.path) for draft, codec in pairs]
        _, seconds = timed(lambda: list(map(train, planned)))  # noqa: B023
        for draft in drafts:
            write(draft)
        commit_json(out / "index.json", {"probes": build.probes, "rescored": 0})
        report[name] = {**searched(out, queries, truth)[1], "train_cpu_s": round(seconds, 1)}
    return report


def workers(inputs: dict[str, list[Path]], queries: Matrix, folder: Path) -> dict[str, Any]:
    """Wall seconds of writing eight shards over Ray, one at a time and two; in turns, the best."""
    rows = -(-len(inputs["vectors"]) // (2 * SHARDS)) * PART_ROWS
    build = BuildDenseIndex(flat_rows=256, shard_rows=rows)
    codecs, drafts = build.plan(inputs, folder, Place(spread=over_ray))
    train(codecs[0])
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)

    def one() -> None:
        for draft in drafts:
            over_ray(write, [draft])

    def two() -> None:
        over_ray(write, drafts)

    two()  # the workers have opened, the files are read once
    rounds = [[timed(way, time.perf_counter)[1] for way in (one, two)] for _ in range(ROUNDS)]
    ray.shutdown()
    (alone, together), ratio = np.min(rounds, axis=0), np.median([a / b for a, b in rounds])
    return {
        "shards": len(drafts), "one_s": round(float(alone), 2), "two_s": round(float(together), 2),
        "median_ratio": round(float(ratio), 2),
    }  # fmt: skip


SECTIONS = {"kinds": kinds, "codecs": codecs, "workers": workers}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="take the vectors of this root")
    parser.add_argument("--rows", type=int, default=100_000, help="draw so many vectors")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="measure no more than these")
    arguments = parser.parse_args()
    matrix = read(arguments.root) if arguments.root else drawn(arguments.rows + QUESTIONS)
    queries, matrix = matrix[:QUESTIONS], matrix[QUESTIONS:]
    with tempfile.TemporaryDirectory() as scratch:
        inputs = write_parts(matrix, Path(scratch) / "parts")
        for name in arguments.only or SECTIONS:
            folder = Path(scratch) / name
            folder.mkdir()
            report = SECTIONS[name](inputs, queries, folder)
            print(json.dumps({"vectors": len(matrix), name: report}), flush=True)


if __name__ == "__main__":
    main()
