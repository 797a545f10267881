"""`python -m perf.tree_search ROOT QUESTIONS [PIPELINE]`: milliseconds of a question, step by step.

QUESTIONS is a file of JSON lines. A hundred are ranked one at a time, after ten to warm up, each
step by the best of three times, as others may use the machine. Prints one JSON object: p50 and p95
of each ranking step, and of all but those that encode.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from srrag.config import factory
from srrag.config.compose import configure
from srrag.formats import read_queries
from srrag.retrieve.questions import question_table

ENCODE = ("EncodeQuestions", "FindKeywords", "WeighTokens")
WARM, ASKED, REPEATS = 10, 100, 3


def main(root: str, questions: str, pipeline: str = "rasrag") -> None:
    """Time the steps by the trace that every pipeline writes."""
    config = configure(
        "evaluate", ["bench=sample", f"root={root}", f"pipeline={pipeline}", "profile.threads=1"]
    )
    bound = factory.pipeline_run(config, factory.pipeline(config).ranking())
    rank = bound.pipeline.open(bound.place(factory.place(config)))
    asked = question_table(list(read_queries(Path(questions)))[: WARM + ASKED])
    times = defaultdict(list)
    for number in range(asked.num_rows):
        once = [rank(asked.slice(number, 1))["trace"][0].as_py() for _ in range(REPEATS)]
        if number < WARM:
            continue
        best = {
            step["step"]: 1000 * min(each[n]["seconds"] for each in once)
            for n, step in enumerate(once[0])
        }
        own = sum(took for name, took in best.items() if name not in ENCODE)
        for name, took in {**best, "without encoding": own}.items():
            times[name].append(took)
    figures = {
        name: {f"p{q}": round(float(np.percentile(each, q)), 2) for q in (50, 95)}
        for name, each in times.items()
    }
    print(
        json.dumps(
            {
                "pipeline": pipeline,
                "questions": len(times["without encoding"]),
                "milliseconds": figures,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
