"""`python -m bench.sweep ROOT [profile=ray]`: what twelve configurations of one retrieval take.

ROOT is a finished build; it is not touched: a copy by hard links is made in a temporary folder
beside it. The configurations are `rationale` with four sizes of the evidence block by three limits
a chunk, answered by rules over the packaged questions. Prints one JSON object with wall and CPU
seconds, the medians of `rounds=3`, of the shared retrieval alone, of each configuration once that
stands, of all twelve as one sweep, and the ratio: sweep / (retrieval + sum of the others).
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobs import parts
from jobs.launch import configure
from jobs.sweep_rows import Configuration, configurations
from srrag.evaluate.gold import read_gold, resource_path
from srrag.pipeline import Pipeline
from srrag.retrieve.questions import question_table
from srrag.runner.runner import Runner
from srrag.runner.sweep import Sweep
from srrag.step import Place
from srrag.store import Store

LISTS = ["+pipeline.answer.select.k=4,8,12,16", "+pipeline.answer.select.max_per_chunk=1,2,3"]


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds; those of Ray's actors are not among the latter."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def measured(
    rows: Sequence[Configuration], runner: Runner, questions: pa.Table, at: Place, root: Path
) -> dict[str, list[tuple[float, float]]]:
    """One round: the retrieval, each configuration behind it, and, from nothing, the sweep."""
    pipelines = [row.pipeline for row in rows]
    resources = partial(parts.resources, rows[0].config)

    def run(*some: Pipeline) -> Callable[[], object]:
        sweep = Sweep(Store(root), rows[0].run.build, some, runner, resources)
        return partial(sweep.run, questions, at)

    forget(root)
    retrieval = timed(run(pipelines[0].ranking()))
    others = [timed(run(each)) for each in pipelines]
    forget(root)
    return {"retrieval": [retrieval], "others": others, "sweep": [timed(run(*pipelines))]}


def forget(root: Path) -> None:
    """Remove what pipelines made."""
    for folder in (root / "stages").glob("answers-*"):
        shutil.rmtree(folder)


def main(argv: Sequence[str]) -> None:
    """Measure a few rounds, and print the medians."""
    source = Path(argv[0]).resolve()
    rounds = int(next((item[7:] for item in argv if item.startswith("rounds=")), 3))
    options = [item for item in argv[1:] if not item.startswith("rounds=")]
    with tempfile.TemporaryDirectory(dir=source.parent) as folder:
        root = Path(folder) / "root"
        shutil.copytree(source, root, copy_function=lambda a, b: Path(b).hardlink_to(a))
        settings = [f"root={root}", "bench=answers", "pipeline=rationale", *LISTS, *options]
        config = configure("sweep", settings)
        rows = configurations(config, lambda pipeline: pipeline)
        questions = question_table(read_gold(resource_path(config["bench"]["path"])))
        runner, at = parts.runner(config), parts.place(config)
        with runner.session():
            measured(rows, runner, questions, at, root)  # loads models, fills caches
            made = [measured(rows, runner, questions, at, root) for _ in range(rounds)]
    table: dict[str, Any] = {"configurations": len(rows), "questions": questions.num_rows}
    for place, kind in enumerate(("wall_s", "cpu_s")):
        sums = {
            name: statistics.median(sum(each[place] for each in one[name]) for one in made)
            for name in made[0]
        }
        ratios = [
            one["sweep"][0][place]
            / (one["retrieval"][0][place] + sum(each[place] for each in one["others"]))
            for one in made
        ]
        table[kind] = {name: round(value, 3) for name, value in sums.items()}
        table[kind]["ratio"] = round(statistics.median(ratios), 3)
    print(json.dumps(table))


if __name__ == "__main__":
    main(sys.argv[1:])
