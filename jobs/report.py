"""`srrag report`: results as one page that works offline, and in wandb."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srrag.core.errors import UsageError, check_numbers
from srrag.lab.report.page import BenchmarkSection, section, write_report
from srrag.lab.report.results import Results, read_results
from srrag.lab.report.view import benches
from srrag.runner.progress import say


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Write the report of a folder of results."""
    started = time.perf_counter()
    try:
        results = read_results(Path(config["results"]))
        sections = _sections(results, config)
    except ValueError as error:
        config["out"] = None  # wrong usage leaves no trace
        raise UsageError(str(error)) from error
    out = Path(config["out"])
    page = write_report(results, sections, str(config["title"]), out)
    say(str(page))
    summary: dict[str, Any] = {
        "rows": len(results.rows),
        "failed_rows": [row.name for row in results.rows if row.state == "failed"],
        "questions_shown": sum(len(d.shown) for s in sections for d in s.drilldowns),
        "html_bytes": page.stat().st_size,
        "out": str(out),
    }
    if config["wandb"]:
        from srrag.lab.report.log_wandb import log

        summary["wandb"] = log(results, sections, out, config["wandb"])
        summary["ok"] = summary["wandb"]["state"] in ("logged", "disabled")
        say(f"wandb: {summary['wandb']['state']} {summary['wandb']['detail']}")
    summary["seconds"] = round(time.perf_counter() - started, 3)
    return summary


def _sections(results: Results, config: Mapping[str, Any]) -> list[BenchmarkSection]:
    check_numbers(config, resamples=1, seed=0)
    if config["worst"] is not None:
        check_numbers(config, worst=0)
    if config["wandb"] not in (False, True, "offline", "online"):
        raise UsageError(f"wandb={config['wandb']}: one of false, true, offline, online")
    if not isinstance(config["metrics"], (list, type(None))):
        raise UsageError(f"metrics={config['metrics']}: a list of metrics, as [nDCG@10,miss@10]")
    options = {key: config[key] for key in ("worst", "resamples", "seed")}
    shown = benches(results.rows, config["metrics"])
    return [section(results, bench, **options) for bench in shown]
