"""`python -m perf.sweep ROOT [profile=ray]`: what twelve configurations of one retrieval take.

ROOT is a finished build; it is not touched: a copy by hard links is made in a temporary folder
beside it. The configurations are `rationale` with four sizes of the evidence block by three limits
a chunk, answered by rules over the packaged questions. Prints one JSON object with wall and CPU
seconds (those of Ray's workers too), the medians of `rounds=3`, of the shared retrieval alone, of
each configuration once that stands, of all twelve as one sweep, and the ratio: sweep / (retrieval +
sum of the others).
"""

from __future__ import annotations

import contextlib
import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from srrag.config import factory
from srrag.config.compose import configure
from srrag.evaluate.references import read_gold, resource_path
from srrag.experiment.configurations import Configuration, configurations
from srrag.pipeline import Pipeline
from srrag.retrieve.questions import question_table
from srrag.runner.runner import Runner
from srrag.runner.sweep import Sweep
from srrag.step import Place
from srrag.storage.store import Store

LISTS = ["+pipeline.answer.select.k=4,8,12,16", "+pipeline.answer.select.max_per_chunk=1,2,3"]


SAMPLED_S = 0.1
"""A worker that ends loses at most so many CPU seconds of the count."""


class Meter(threading.Thread):
    """CPU seconds of this process and of all that it starts, Ray's workers too."""

    def __init__(self) -> None:
        """Count from now on."""
        super().__init__(daemon=True)
        self._used: dict[tuple[int, float], float] = {}
        self._own = psutil.Process()
        self._ended = threading.Event()
        self._spent = 0.0

    def run(self) -> None:
        """Sample every process repeatedly; a finished one keeps its last reading."""
        while not self._ended.wait(SAMPLED_S):
            self.look()
            self._spent = time.thread_time()

    def look(self) -> None:
        """Note what each process has used so far."""
        for process in (self._own, *self._own.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                times = process.cpu_times()
                self._used[process.pid, process.create_time()] = times.user + times.system

    def seconds(self) -> float:
        """The sum, now, without what looking takes."""
        self.look()
        return sum(dict(self._used).values()) - self._spent

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self.join()


def timed(work: Callable[[], object], meter: Meter) -> tuple[float, float]:
    """Wall and CPU seconds, those of workers among the latter."""
    wall, cpu = time.perf_counter(), meter.seconds()
    work()
    return time.perf_counter() - wall, meter.seconds() - cpu


def measured(
    rows: Sequence[Configuration],
    runner: Runner,
    questions: pa.Table,
    at: Place,
    root: Path,
    meter: Meter,
) -> dict[str, list[tuple[float, float]]]:
    """One round: the retrieval, each configuration behind it, and, from nothing, the sweep."""
    pipelines = [row.pipeline for row in rows]
    resources = partial(factory.resources, rows[0].config)

    def run(*some: Pipeline) -> Callable[[], object]:
        sweep = Sweep(Store(root), rows[0].run.build, some, runner, resources)
        return partial(sweep.run, questions, at)

    forget(root)
    retrieval = timed(run(pipelines[0].ranking()), meter)
    others = [timed(run(each), meter) for each in pipelines]
    forget(root)
    return {"retrieval": [retrieval], "others": others, "sweep": [timed(run(*pipelines), meter)]}


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
        rows = configurations(config["overrides"], config["sweep"]["rows"], lambda each: each)
        questions = question_table(read_gold(resource_path(config["bench"]["path"])))
        runner, at = factory.runner(config), factory.place(config)
        meter = Meter()
        with runner.session():
            meter.start()
            rows[0].run.run(questions, at)  # loads models, fills caches
            made = [measured(rows, runner, questions, at, root, meter) for _ in range(rounds)]
            meter.end()
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
