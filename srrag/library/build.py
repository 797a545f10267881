"""Build a root from a composed configuration: what `srrag build` and `root.build(…)` run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from srrag.core.errors import UsageError
from srrag.corpus.statuses import keep_statuses, list_name, read_statuses
from srrag.library.summaries import BuildSummary, summary_of
from srrag.runner.build import BuildJob
from srrag.runner.engines import engines_of
from srrag.runner.estimate import EstimateJob, readable
from srrag.runner.progress import say
from srrag.runner.rejects import read_rejects, readable_rejects
from srrag.runner.summary import headline
from srrag.storage.store import Store

_NAMED = 10


def build_root(config: dict[str, Any]) -> dict[str, Any]:
    """Build the missing parts of `root` from `corpus`."""
    from srrag.config import factory  # imports Hydra

    reader = factory.make(config["corpus"], "corpus")
    store = Store(config["root"])
    if config["statuses"] and config["stages"].get("standing"):
        notices = read_statuses(Path(config["statuses"]))
        kept = list_name(notices) if config["estimate"] else keep_statuses(store, notices)
        config["stages"]["standing"]["run"]["statuses"] = kept
    plan = factory.plan(config, reader)
    asked = engines_of([stage.step for stage in plan.steps])
    if asked and all(stage.name != "graph" for stage in plan.stages):
        say("plan=graph makes a graph of what the model finds, with no further call")
    if config["estimate"]:
        summary = EstimateJob(store, plan, config["build"]).run(
            reader.scan(), factory.place(config)
        )
        say(readable(summary))
        return summary
    job = BuildJob(
        store=store,
        plan=plan,
        runner=factory.runner(config),
        name=config["build"],
        command=config["command"],
        max_failed_share=config["max_failed_share"],
        retry_failed=config["retry_failed"],
        update=config["update"],
        repair=config["repair"],
    )
    store, summary = job.store, job.run(reader.scan(), factory.place(config))
    if named := readable_rejects(read_rejects(store, job.name), _NAMED):
        say(f"rejected: {summary['rejected']:,}\n{named}")
    return headline(summary)


def build_here(
    store: Store,
    name: str,
    corpus: str = "folder",
    path: str | Path | None = None,
    overrides: Iterable[str] = (),
) -> BuildSummary:
    """Build a root in this process; `corpus`, `path` and `overrides` are as on the command line."""
    from srrag.config.compose import configure

    given = [f"root={store}", f"build={name}", f"corpus={corpus}", *overrides]
    given += [] if path is None else [f"corpus.path={path}"]
    config = configure("build", given)
    if config["estimate"]:
        raise UsageError("estimate=true: it builds nothing; ask `srrag build` for an estimate")
    said = build_root({**config, "command": shlex.join(["srrag", "build", *given])})
    return summary_of(store, name, said)
