"""`srrag make_benchmark`: from a finished build to a benchmark, with what reviewers decide on."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from srrag.config import factory
from srrag.core.errors import UsageError, check_numbers, reading
from srrag.core.standing import Standings
from srrag.core.step import Place
from srrag.core.units import Units
from srrag.lab.benchmark.review import counted, read_decisions
from srrag.lab.experiment.benchmark_files import Release, rebuild, report
from srrag.lab.experiment.make_benchmark import Counted, MakeBenchmark, Standing
from srrag.lab.experiment.running import Running
from srrag.runner.estimate import readable
from srrag.runner.progress import say
from srrag.runner.summary import calls_made
from srrag.storage.store import Store

MADE = ("sample", "dense", "questions", "support", "reference", "nuggets")


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Make the benchmark, rebuild one, or estimate the cost of making it."""
    started, release = time.perf_counter(), _release(config)
    (store := Store(config["root"])).check()
    if config["rebuild"]:
        return rebuild(Path(config["rebuild"]), store, config["build"], release.out)
    paths = _decision_files(config["decisions"])
    with reading(*paths):
        decisions, undecided = read_decisions(paths)
    artifacts = store.artifacts(config["build"])
    units, standings = Units(artifacts["units"]), Standings.of(Place(artifacts=artifacts))
    numbers = {name: config[name] for name in ("accessible_at", "pool_windows")}
    made = {name: factory.make(config[name], name) for name in MADE}
    making = MakeBenchmark(rankings=factory.rankings(config), release=release, **made, **numbers)
    if config["estimate"]:
        dry = Counted(replace(factory.place(config), root=Path(config["root"])))
        summary = dry.told(making.run(units, standings, dry, []))
        say(readable(summary))
        return summary
    stages = Standing.of(Path(config["root"]), Running.of(config))
    with stages.store.lock(), stages.running.runner.session():
        figures = making.run(units, standings, stages, decisions)
    summary = {
        **figures,
        "decisions": counted(decisions, undecided),
        **calls_made(stages.usage, figures["questions"]),
        "seconds_per_stage": stages.seconds,
        "seconds": round(time.perf_counter() - started, 3),
        "out": str(config["out"]),
    }
    say(report(summary))
    return summary


def _release(config: dict[str, Any]) -> Release:
    """Check the settings before any data is read; raises UsageError that names the key."""
    check_numbers(config, accessible_at=1, pool_windows=1)
    if not isinstance(config["pool"], list):
        raise UsageError(f"pool={config['pool']}: a list of pipelines is needed, as [bm25,hybrid]")
    names = ("validation_share", "copied_words", "seed")
    return Release(Path(config["out"]), **{name: config[name] for name in names})


def _decision_files(given: Any) -> list[Path]:
    paths = [Path(str(each)) for each in (given if isinstance(given, list) else [given]) if each]
    if missing := [path for path in paths if not path.is_file()]:
        raise UsageError(f"decisions={missing[0]} is not a file")
    return paths
