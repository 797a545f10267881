"""`srrag sweep`: many configurations over shared stages → one table, written as results."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from srrag.core.errors import UsageError
from srrag.lab.experiment.configurations import configurations, made_before
from srrag.lab.experiment.estimate import estimate
from srrag.lab.experiment.pairs import expanded_pairs
from srrag.lab.experiment.record import bench_group
from srrag.lab.experiment.scoring import read_bench
from srrag.lab.experiment.sweep import SweepBench, row_off, run_sweep
from srrag.lab.experiment.sweep_summary import told
from srrag.lab.experiment.table import SHOWN, ranks, readable_systems
from srrag.lab.experiment.terms import Terms
from srrag.runner.progress import say


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Run what is missing of all configurations, score them, and write the table."""
    started, terms, given = time.perf_counter(), Terms.of(config), config["sweep"]
    bench, path = read_bench(terms), terms.path
    off: dict[str, str] | None = {} if given.get("lacking") == "said" else None
    rows = configurations(config["overrides"], given["rows"], bench.asked, made_before(given), off)
    baseline = given["baseline"] or rows[0].name
    if baseline not in (names := [row.name for row in rows]):
        raise UsageError(f"sweep.baseline={baseline}: there are {', '.join(names)}")
    left_out = {name for name, row in (given["rows"] or {}).items() if row is None} | {*(off or ())}
    pairs = expanded_pairs(given.get("pairs") or {}, names, left_out)
    say(f"{len(rows)} configurations, {bench.questions.num_rows} questions")
    for row in rows:
        say(f"  {row.name}: {row.command(str(path), config['engine'])}")
    if config["estimate"]:
        runs = {row.name: row.run for row in rows}
        return estimate(runs, bench.questions, terms.running.place, bench)
    shared = {"engine": config["engine"], "in_sample": terms.in_sample, **terms.resampling}
    group = bench_group(config["overrides"], terms.bench["kind"])
    unfair = str((given.get("unfair") or {}).get(group) or "")
    scored = SweepBench(bench, terms.name, path, **shared, unfair=unfair)
    idle = [row_off(name, why, scored, given["rows"][name]) for name, why in (off or {}).items()]
    found = run_sweep(scored, rows, baseline, terms.running, Path(config["out"]), idle)
    summary, text = told(
        found,
        bench,
        baseline,
        pairs=pairs,
        by=terms.bench.get("by"),
        shown=given.get("shown") or SHOWN,
    )
    order = ranks(found.rows, given.get("decides") or ())
    without = {r.name: ", ".join(r.pipeline.left_out) for r in rows if r.pipeline.left_out}
    summary |= {"ranks": order, "off": without | (off or {})}
    say(text + readable_systems(order, summary["off"] if off is not None else {}, unfair))
    took = {"out": config["out"], "seconds": round(time.perf_counter() - started, 3)}
    return summary | took
