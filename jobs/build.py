"""`srrag build`: documents → windows → triples → graph and indexes, each stage once."""

from __future__ import annotations

import sys
from typing import Any

from srrag.config import factory
from srrag.runner.build import BuildJob
from srrag.runner.estimate import EstimateJob, readable
from srrag.runner.progress import say
from srrag.runner.rejects import read_rejects, readable_rejects
from srrag.storage.store import Store

_NAMED = 10


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Build what is missing in `root` from `corpus`."""
    reader = factory.make(config["corpus"], "corpus")
    plan = factory.plan(config, reader)
    if config["estimate"]:
        summary = EstimateJob(Store(config["root"]), plan, config["build"]).run(
            reader.scan(), factory.place(config)
        )
        say(readable(summary))
        config["out"] = None  # an estimate leaves no trace
        return summary
    job = BuildJob(
        store=Store(config["root"]),
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


def headline(summary: dict[str, Any]) -> dict[str, Any]:
    """Move the most important figures to the top."""
    rows, figures = summary["rows"], summary["figures"]
    first = {
        "documents": rows.get("documents", 0),
        "windows": rows.get("windows", 0),
        "triples": rows.get("triples", 0),
        "entities": figures.get("entities", {}).get("entities", 0),
        "edges": figures.get("entities", {}).get("edges", 0),
        "communities": figures.get("communities", {}).get("communities", 0),
    }
    return {**first, **summary}


if __name__ == "__main__":
    from srrag.config.run_job import launch

    sys.exit(launch("build", run, sys.argv[1:]))
