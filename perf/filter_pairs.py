"""Pairs for `srrag train_filter` without the questions of a benchmark that the filter will be in.

    python -m perf.filter_pairs PAIRS_FOLDER OUT_FOLDER BENCHMARK_FOLDER

Copies train.jsonl and dev.jsonl without the pairs whose question the folder's *.jsonl ask. Which
questions are the same, srrag.core.provenance.digest says, as in an evaluation.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from srrag.core.provenance import digest

FILES = ("train.jsonl", "dev.jsonl")


def main(pairs: Path, out: Path, benchmark: Path) -> dict[str, dict[str, int]]:
    """Write the files that are left; returns pairs read and pairs left by file."""
    asked = {
        digest(str(json.loads(line)["question"]))
        for path in sorted(benchmark.glob("*.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    }
    if not asked:
        raise SystemExit(f"{benchmark}: no *.jsonl with questions")
    out.mkdir(parents=True, exist_ok=True)
    counts = {}
    for name in FILES:
        lines = (pairs / name).read_text("utf-8").splitlines()
        left = [line for line in lines if digest(str(json.loads(line)["query"])) not in asked]
        (out / name).write_text("".join(f"{line}\n" for line in left), "utf-8")
        counts[name] = {"pairs": len(lines), "left": len(left)}
    return counts


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    sys.stdout.write(json.dumps(main(*map(Path, sys.argv[1:]))) + "\n")
