"""`srrag export`: the graph, a page of a part of it, or the runs of results, for other tools."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from srrag.core.errors import UsageError, check_numbers, reading
from srrag.core.units import Units
from srrag.export.submission import write_submissions, write_trec_runs
from srrag.export.write import (
    FORMATS,
    IMPORT,
    open_exported,
    write_atomically,
)
from srrag.lab.report.results import read_results
from srrag.runner.progress import say
from srrag.storage.store import Store

RUNS = ("trec", "biogen")
"""Formats that export the rows of results, not the graph."""


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Write the graph of a build, or a community or neighbourhood, into the folder `out`."""
    started = time.perf_counter()
    name = str(config["format"])
    if name not in (*FORMATS, *RUNS):
        raise UsageError(f"format={name}: one of {', '.join((*FORMATS, *RUNS))}")
    if (config["results"] is None) == (name in RUNS):
        needs = f"format={name} exports the graph" if name in FORMATS else "results= is missing"
        raise UsageError(f"results={config['results']}: {needs}")
    check_numbers(config, hops=0, max_nodes=1)
    if config["community"] and config["entity"]:
        raise UsageError("community and entity: name one of them")
    out = Path(config["out"])
    if out.exists() and not out.is_dir():
        raise UsageError(f"out={out} is a file; out names the folder that the files go into")
    files, counts = write_atomically(out, _writer(config, name))
    summary: dict[str, Any] = {"format": name, **counts, "out": str(out), "files": files}
    if name == "neo4j":
        summary["import"] = IMPORT
    summary["seconds"] = round(time.perf_counter() - started, 3)
    say(f"{', '.join(f'{v:,} {k}' for k, v in counts.items())} → {', '.join(files)} in {out}")
    return summary


def _writer(config: Mapping[str, Any], name: str) -> Callable[[Path], dict[str, int]]:
    """What writes the files of a format into a folder."""
    if name in FORMATS:
        source = open_exported(
            Store(config["root"]),
            config["build"],
            community=str(config["community"] or ""),
            entity=str(config["entity"] or ""),
            hops=int(config["hops"]),
            whole=name == "html",
        )
        return lambda folder: FORMATS[name](source, folder, int(config["max_nodes"]))
    path = Path(config["results"])
    with reading(path):
        results = read_results(path)
        answers = {row.name: table for row in results.rows if (table := results.answers(row.name))}
    if not answers:
        raise UsageError(f"results={path}: no row of it kept its answers")
    if name == "biogen":
        team = str(config["team"])
        return lambda folder: write_submissions(answers, team, folder)
    units = Units(Store(config["root"]).artifacts(config["build"])["units"])
    return lambda folder: write_trec_runs(answers, units, folder)
