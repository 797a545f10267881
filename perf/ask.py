"""`python -m perf.ask ROOT QUERIES`: how long one question takes once all is loaded, by step.

ROOT is a finished build with what `pipeline=srrag` (or `pipeline=…`) needs, QUERIES a file of
questions; `questions=N` keeps to the first N. Prints one JSON object: p50 and p99 milliseconds of a
question asked alone, and each step's share of all that time, the largest first.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from srrag.config import factory
from srrag.config.compose import configure
from srrag.formats import read_queries
from srrag.retrieve.questions import question_table


def main(argv: Sequence[str]) -> None:
    """Ask each question by itself."""
    options = dict(item.split("=", 1) for item in argv[2:])
    name = options.get("pipeline", "srrag")
    config = configure("ask", [f"root={argv[0]}", f"pipeline={name}", "question=x"])
    pipeline = factory.make(config["pipeline"], "pipeline")
    at = factory.pipeline_run(config, pipeline).place(factory.place(config))
    answer = pipeline.open(at)
    tables = [question_table([row]) for row in read_queries(Path(argv[1]))]
    tables = tables[: int(options.get("questions", len(tables)))]
    answer(tables[0])
    taken, steps, failed = [], Counter[str](), 0
    for table in tables:
        started = time.perf_counter()
        (row,) = answer(table).to_pylist()
        taken.append(1000 * (time.perf_counter() - started))
        failed += row["reject"] is not None
        for item in [*row["trace"], *row.get("search_trace", ())]:
            steps[item["step"]] += item["seconds"]
    whole = sum(taken) / 1000
    shares = {step: round(seconds / whole, 3) for step, seconds in steps.most_common()}
    p50, p99 = (round(float(np.quantile(taken, q)), 1) for q in (0.5, 0.99))
    figures = {"questions": len(tables), "failed": failed, "p50_ms": p50, "p99_ms": p99}
    print(json.dumps({**figures, "shares": shares}))


if __name__ == "__main__":
    main(sys.argv[1:])
