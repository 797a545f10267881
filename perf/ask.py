"""`python -m perf.ask ROOT QUERIES`: how long one question takes once all is loaded, by step.

ROOT is a finished build with what `pipeline=srrag` (or `pipeline=…`) needs, QUERIES a file of
questions; `questions=N` keeps to the first N, other settings go to the pipeline. Prints one JSON
object: p50 and p99 milliseconds of a question asked alone, its milliseconds of processor time, and
p50, p99 and share of all that time of each step, the largest first.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from srrag.config import factory
from srrag.config.compose import configure
from srrag.core.formats import read_queries
from srrag.retrieve.questions import question_table


def main(argv: Sequence[str]) -> None:
    """Ask each question by itself."""
    options = dict(item.split("=", 1) for item in argv[2:])
    name, most = options.pop("pipeline", "srrag"), options.pop("questions", "")
    settings = [f"{key}={value}" for key, value in options.items()]
    config = configure("ask", [f"root={argv[0]}", f"pipeline={name}", "question=x", *settings])
    pipeline = factory.make(config["pipeline"], "pipeline")
    at = factory.pipeline_run(config, pipeline).place(factory.place(config))
    answer = pipeline.open(at)
    tables = [question_table([row]) for row in read_queries(Path(argv[1]))]
    tables = tables[: int(most or len(tables))]
    answer(tables[0])
    taken, worked, failed = [], [], 0
    steps: defaultdict[str, list[float]] = defaultdict(list)
    for table in tables:
        started, used = time.perf_counter(), time.process_time()
        (row,) = answer(table).to_pylist()
        taken.append(1000 * (time.perf_counter() - started))
        worked.append(1000 * (time.process_time() - used))
        failed += row["reject"] is not None
        for item in [*row["trace"], *row.get("search_trace", ())]:
            steps[item["step"]].append(1000 * item["seconds"])
    whole = sum(taken)
    told = {
        step: {**quantiles(each), "share": round(sum(each) / whole, 3)}
        for step, each in sorted(steps.items(), key=lambda pair: -sum(pair[1]))
    }
    counts = {"questions": len(tables), "failed": failed}
    cpu = {"mean_ms": round(float(np.mean(worked)), 1), **quantiles(worked)}
    print(json.dumps({**counts, **quantiles(taken), "cpu": cpu, "steps": told}))


def quantiles(taken: Sequence[float]) -> dict[str, float]:
    """p50 and p99 in milliseconds."""
    p50, p99 = (round(float(np.quantile(taken, q)), 1) for q in (0.5, 0.99))
    return {"p50_ms": p50, "p99_ms": p99}


if __name__ == "__main__":
    main(sys.argv[1:])
