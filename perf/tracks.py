"""`python -m perf.tracks ROOT QUERIES`: what a second track costs, and what it finds.

ROOT holds a build, QUERIES is a queries.jsonl. BM25, vectors and graph are searched on one track
of all grades and on two (A; B to E), in turns, after the questions were encoded. Prints one JSON
object: milliseconds of processor time a question of each, of all channels and of each alone, and
how many windows of grade A the fused lists hold.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from srrag.retrieve.channel import SearchChannel
from srrag.retrieve.questions import EncodeQuestions, question_table
from srrag.retrieve.search_dense import SearchDense
from srrag.retrieve.search_graph import SearchGraph
from srrag.retrieve.search_sparse import SearchSparse
from srrag.retrieve.tracks import SearchTracks, Track
from srrag.step import Function, Place
from srrag.storage.store import Store
from srrag.units import open_units

CHANNELS: dict[str, SearchChannel] = {
    "sparse": SearchSparse(),
    "dense": SearchDense(),
    "graph": SearchGraph(),
}
ONE = (Track(name="all"),)
TWO = (
    Track(name="guidelines", grades=("A",)),
    Track(name="studies", grades=("B", "C", "D", "E")),
)


def main() -> None:
    """Measure and print."""
    read = argparse.ArgumentParser()
    read.add_argument("root", type=Path)
    read.add_argument("queries", type=Path)
    read.add_argument("--questions", type=int, default=128)
    read.add_argument("--rounds", type=int, default=5)
    given = read.parse_args()
    at = Place(artifacts=Store(given.root).artifacts("default"))
    lines = given.queries.read_text("utf-8").splitlines()[: given.questions]
    rows = [{"query_id": str(n), "text": json.loads(line)["text"]} for n, line in enumerate(lines)]
    table = EncodeQuestions().open(at)(question_table(rows))
    found: dict[str, Any] = {"questions": len(rows)}
    for name in ("all", *CHANNELS):
        channels = CHANNELS if name == "all" else {name: CHANNELS[name]}
        runs = [SearchTracks(channels=channels, tracks=tracks).open(at) for tracks in (ONE, TWO)]
        one, two = spent(runs, table, given.rounds)
        found[name] = {"one_ms": one, "two_ms": two, "ratio": round(two / one, 2)}
        if name == "all":
            found["grade_a"] = {
                tracks: guidelines(run(table), at)
                for tracks, run in zip(("one", "two"), runs, strict=True)
            }
    print(json.dumps(found))


def spent(runs: Sequence[Function], table: pa.Table, rounds: int) -> list[float]:
    """Least processor milliseconds a question of each run, one question at a time, in turns."""
    best = [np.inf] * len(runs)
    for _ in range(rounds):
        for place, run in enumerate(runs):
            started = time.process_time()
            for row in range(table.num_rows):
                run(table.slice(row, 1))
            best[place] = min(best[place], time.process_time() - started)
    return [round(1000 * each / table.num_rows, 2) for each in best]


def guidelines(out: pa.Table, at: Place) -> dict[str, float]:
    """Windows of grade A a question: in the whole list, its first 100 and its first 12."""
    units = open_units(at)
    counts = []
    for row in out["hits"].to_pylist():
        ids = [hit["unit_id"] for hit in row]
        is_a = np.array([grade == "A" for grade in units.take(ids)["grade"].to_pylist()])
        counts.append([is_a[:depth].sum() for depth in (len(ids), 100, 12)])
    means = np.mean(counts, axis=0)
    return {name: round(float(n), 3) for name, n in zip(("list", "100", "12"), means, strict=True)}


if __name__ == "__main__":
    main()
