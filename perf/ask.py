"""`python -m perf.ask ROOT QUERIES`: how long one question takes once all is loaded, by step.

ROOT is a finished build with what `pipeline=srrag` (or `pipeline=…`) needs, QUERIES a file of
questions; `questions=N` keeps to the first N, other settings go to the pipeline. Prints one JSON
object: p50 and p99 milliseconds of a question asked alone, and p50, p99 and share of all that time
of each step, the largest first; in `cpu` milliseconds of processor time (p50, the smaller of two
calls): encoding the question alone, what ranking takes beyond it, a whole answer, how many times
its encoding that is, and one question of 64 that are asked together. `first` is the one call before
those, of windows that were not read before, unless another question found them.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.config import factory
from srrag.config.compose import configure
from srrag.core.formats import read_queries
from srrag.model.embed import load
from srrag.retrieve.questions import question_table

MANY = 64
"""Questions of a batch."""


def main(argv: Sequence[str]) -> None:
    """Ask each question by itself."""
    options = dict(item.split("=", 1) for item in argv[2:])
    name, most = options.pop("pipeline", "srrag"), options.pop("questions", "")
    settings = [f"{key}={value}" for key, value in options.items()]
    config = configure("ask", [f"root={argv[0]}", f"pipeline={name}", "question=x", *settings])
    pipeline = factory.make(config["pipeline"], "pipeline")
    at = factory.pipeline_run(config, pipeline).place(factory.place(config))
    encoder = load(factory.make(config["embedder"], "embedder"), at.device, at.threads)
    encoder.encode_tokens(["imports torch"] * 32)
    answer, rank = pipeline.open(at), pipeline.ranking().open(at)
    tables = [question_table([row]) for row in read_queries(Path(argv[1]))]
    tables = tables[: int(most or len(tables))]
    answer(tables[0])
    taken, first, failed = [], [], 0
    steps: defaultdict[str, list[float]] = defaultdict(list)
    for table in tables:
        started, used = time.perf_counter(), time.process_time()
        answered = answer(table)
        first.append(1000 * (time.process_time() - used))
        taken.append(1000 * (time.perf_counter() - started))
        (row,) = answered.to_pylist()
        failed += row["reject"] is not None
        for item in [*row["trace"], *row.get("search_trace", ())]:
            steps[item["step"]].append(1000 * item["seconds"])
    told = {
        step: {**quantiles(each), "share": round(sum(each) / sum(taken), 3)}
        for step, each in sorted(steps.items(), key=lambda pair: -sum(pair[1]))
    }
    counts = {"questions": len(tables), "failed": failed}
    texts = [table["text"].to_pylist() for table in tables]
    encoding = worked(lambda text: encoder.encode_tokens(text, "query"), texts)
    whole = worked(answer, tables)
    many = pa.concat_tables(tables[:MANY])
    cpu = {
        "encoding_ms": p50(encoding), "beyond_encoding_ms": p50(worked(rank, tables) - encoding),
        "whole_ms": p50(whole), "whole_over_encoding": p50(whole / encoding),
        "first_ms": p50(np.array(first)), "first_over_encoding": p50(np.array(first) / encoding),
        "of_many_ms": p50(worked(answer, [many]) / len(many)),
    }  # fmt: skip
    print(json.dumps({**counts, **quantiles(taken), "cpu": cpu, "steps": told}))


def worked(call: Callable[[Any], Any], items: Sequence[Any]) -> npt.NDArray[np.float64]:
    """Milliseconds of processor time of each call, the smaller of two."""
    found = np.full(len(items), np.inf)
    for _ in range(2):
        for place, item in enumerate(items):
            used = time.process_time()
            call(item)
            found[place] = min(found[place], 1000 * (time.process_time() - used))
    return found


def p50(taken: npt.NDArray[np.float64]) -> float:
    """The median, to a hundredth."""
    return round(float(np.median(taken)), 2)


def quantiles(taken: Sequence[float]) -> dict[str, float]:
    """p50 and p99 in milliseconds."""
    p50, p99 = (round(float(np.quantile(taken, q)), 1) for q in (0.5, 0.99))
    return {"p50_ms": p50, "p99_ms": p99}


if __name__ == "__main__":
    main(sys.argv[1:])
