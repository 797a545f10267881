"""The questions of a sweep that no fitted part of its rows has seen: what `bench.only` takes.

    python -m perf.unseen OUT.jsonl sweep=biogen bench=bioasq bench.path=bioasq root=R

The arguments after OUT are those of `srrag sweep`. A line of OUT is {"id": …}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from srrag.config.compose import configure
from srrag.lab.experiment.bench import in_sample
from srrag.lab.experiment.configurations import configurations
from srrag.lab.experiment.read_bench import read_bench
from srrag.lab.experiment.running import Terms


def main(out: str, arguments: list[str]) -> None:
    """Write the ids, and say how many questions there are and which parts have seen the others."""
    config = configure("sweep", [*arguments, "out=unused"])
    terms, given = Terms.of(config), config["sweep"]
    bench = read_bench(terms)
    rows = configurations(config["overrides"], given["rows"], bench.asked, off={})
    steps = [*bench.learned, *(step for row in rows for step in row.pipeline.steps)]
    questions = bench.questions.select(["query_id", "text"]).to_pylist()
    seen = in_sample(steps, questions, "apart")
    print("\n".join(seen.said()), file=sys.stderr)
    left = [row["query_id"] for row in questions if row["query_id"] not in seen.questions]
    Path(out).write_text("".join(f"{json.dumps({'id': name})}\n" for name in left), "utf-8")
    print(f"{len(left)} of {len(questions)} questions are unseen", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
