"""`python -m perf.ladder ROOT BENCH`: what each part of the SR-RAG ranking adds, a rung a part.

ROOT is a finished build of the BEIR set in the folder BENCH; `betr=FILE` of a fitted betr.json adds
the last rung, `questions=N` keeps to the first N. Every rung is `pipeline=srrag` with parts left
out or set, so nothing else differs. Prints one JSON object: for each rung nDCG@10 and recall@100
with 95 % bootstrap intervals, the paired difference to the rung before with its interval and
p-value, and p50 and p99 milliseconds of ranking one question at a time, its encoding included, over
the first `latency=100` questions.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from srrag.algo.intervals import bootstrap_interval
from srrag.algo.significance import paired_bootstrap
from srrag.config import factory
from srrag.config.compose import configure
from srrag.evaluate.retrieval import Qrels, per_question, read_qrels
from srrag.formats import read_queries
from srrag.hits import unpack_hits
from srrag.pipeline import Pipeline
from srrag.retrieve.questions import question_table
from srrag.step import Place
from srrag.units import open_units

METRICS = ("nDCG@10", "recall@100")
BATCH = 64
RUNGS = ("hybrid", "+ learnt fusion", "+ graph", "+ two tracks", "+ BETR")
SPARSE = {"_target_": "SearchSparse"}
ONE_TRACK = [{"_target_": "Track", "name": "all"}]


def rung(rank: dict[str, Any], number: int) -> dict[str, Any]:
    """The ranking of `srrag` without what comes above a rung; BM25 is a channel, HyDE is off."""
    rank = copy.deepcopy(rank)
    steps = rank["search"]["search"]["rank"]
    channels = steps["retrieve"]["channels"]
    channels["sparse"], channels["hyde"] = SPARSE, None
    steps["hyde"] = steps["encode_hyde"] = None
    if number < RUNGS.index("+ BETR"):
        rank["fine"] = rank["fine"]["reranker"]
    if number < RUNGS.index("+ two tracks"):
        steps["retrieve"]["tracks"] = ONE_TRACK
    if number < RUNGS.index("+ graph"):
        channels["graph"] = steps["anchors"] = steps["decompose"] = steps["encode_parts"] = None
    if number < RUNGS.index("+ learnt fusion"):
        rank["fine"] = rank["weigh"] = None
        rank["search"]["into"] = "hits"
    return rank


def main(argv: Sequence[str]) -> None:
    """Climb the ladder and print it."""
    root, bench = Path(argv[0]), Path(argv[1])
    options = dict(item.split("=", 1) for item in argv[2:])
    qrels = read_qrels(bench / "qrels" / "test.tsv")
    rows = [row for row in read_queries(bench / "queries.jsonl") if row["query_id"] in qrels]
    rows = rows[: int(options.get("questions", len(rows)))]
    qrels = {row["query_id"]: qrels[row["query_id"]] for row in rows}
    settings = [f"root={root}", "pipeline=srrag", f"bench.path={bench}"]
    config = configure("evaluate", settings)
    if "betr" in options:
        config["pipeline"]["rank"]["fine"]["model"] = options["betr"]
    table: dict[str, Any] = {}
    before: dict[str, Any] = {}
    for number, name in enumerate(RUNGS if "betr" in options else RUNGS[:-1]):
        target = config["pipeline"]["_target_"]
        ranking = {"_target_": target, "rank": rung(config["pipeline"]["rank"], number)}
        pipeline: Pipeline = factory.make(ranking, "pipeline")
        at = factory.pipeline_run(config, pipeline).place(factory.place(config))
        values = score(pipeline, rows, qrels, at)
        table[name] = {
            **{metric: interval(values[metric]) for metric in METRICS},
            **{f"Δ {metric}": change(values[metric], before.get(metric)) for metric in METRICS},
            **latency(pipeline, rows, at, int(options.get("latency", 100))),
        }
        print(name, json.dumps(table[name], ensure_ascii=False), file=sys.stderr, flush=True)
        before = values
    print(json.dumps({"questions": len(rows), "rungs": table}, ensure_ascii=False))


def score(pipeline: Pipeline, rows: list[dict[str, Any]], qrels: Qrels, at: Place) -> Any:
    """Each metric of each question; a document counts by its best window."""
    rank = pipeline.open(at)
    units = open_units(at)
    found: dict[str, dict[str, float]] = {}
    for start in range(0, len(rows), BATCH):
        ranked: pa.Table = rank(question_table(rows[start : start + BATCH]))
        ids, _, offsets = unpack_hits(ranked["hits"])
        documents = units.document_keys(ids.to_pylist()).to_pylist()
        for row, query_id in enumerate(ranked["query_id"].to_pylist()):
            listed = dict.fromkeys(documents[offsets[row] : offsets[row + 1]])
            found[query_id] = {document: 1.0 / n for n, document in enumerate(listed, start=1)}
    return per_question(qrels, found)


def interval(sample: Any) -> list[float]:
    """Mean, lower and upper bound."""
    return [round(float(each), 4) for each in bootstrap_interval(sample, resamples=10_000, seed=0)]


def change(ours: Any, theirs: Any) -> list[float] | None:
    """Difference to the rung before, lower and upper bound, p-value."""
    if theirs is None:
        return None
    return [round(float(each), 4) for each in paired_bootstrap(ours, theirs)]


def latency(pipeline: Pipeline, rows: list[dict[str, Any]], at: Place, number: int) -> Any:
    """Milliseconds of single questions once all is loaded."""
    rank = pipeline.open(at)
    tables = [question_table([row]) for row in rows[:number]]
    rank(tables[0])
    taken = []
    for table in tables:
        started = time.perf_counter()
        rank(table)
        taken.append(1000 * (time.perf_counter() - started))
    return {"p50_ms": round(float(np.quantile(taken, 0.5)), 1),
            "p99_ms": round(float(np.quantile(taken, 0.99)), 1)}  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
