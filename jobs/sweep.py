"""`srrag sweep`: many configurations over shared stages → one table, written as results."""

from __future__ import annotations

import time
from typing import Any

from srrag.core.errors import UsageError
from srrag.lab.experiment.configurations import RowOff, configurations, made_before
from srrag.lab.experiment.estimate import estimate
from srrag.lab.experiment.evaluate import told
from srrag.lab.experiment.read_bench import read_bench
from srrag.lab.experiment.running import Terms
from srrag.lab.experiment.sweep import bench_group, check_windows, row_off, run_sweep
from srrag.lab.experiment.table import (
    expanded_pairs,
    paired,
    readable,
    readable_pairs,
    readable_systems,
)
from srrag.lab.measure.scores import readable_chance
from srrag.runner.progress import say


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Run what is missing of all configurations, score them, and write the table."""
    started, terms, given = time.perf_counter(), Terms.of(config), config["sweep"]
    bench, path, kind = read_bench(terms), terms.path, terms.bench["kind"]
    if terms.bench.get("answers") or terms.bench.get("baseline_answers"):
        raise UsageError("bench.answers: a sweep's configurations answer themselves")
    off: dict[str, RowOff] | None = {} if given.get("lacking") == "said" else None
    rows = configurations(config["overrides"], given["rows"], bench.asked, made_before(given), off)
    if terms.root and kind in ("gold", "textbook"):
        check_windows(rows, terms.root, terms.build)
    baseline = given["baseline"] or rows[0].name
    if baseline not in (names := [row.name for row in rows]):
        raise UsageError(f"sweep.baseline={baseline}: there are {', '.join(names)}")
    lost = {name: each.reason for name, each in (off or {}).items()}
    left_out = {name for name, row in (given["rows"] or {}).items() if row is None} | {*lost}
    pairs = expanded_pairs(given.get("pairs") or {}, names, left_out)
    say(f"{len(rows)} configurations, {bench.questions.num_rows} questions")
    for row in rows:
        say(f"  {row.name}: {row.command(str(path), config['engine'])}")
    if config["estimate"]:
        runs = {row.name: row.run for row in rows if row.run}
        return estimate(runs, bench.questions, terms.running.place, bench)
    unfair = str((given.get("unfair") or {}).get(bench_group(config["overrides"], kind)) or "")
    idle = [row_off(name, each, bench, terms, unfair) for name, each in (off or {}).items()]
    found = run_sweep(bench, terms, rows, baseline, off=idle, unfair=unfair)
    summary = told(found, bench, terms, baseline)
    by = terms.bench.get("by") or ""
    compared = paired(
        {name: each.scores for name, each in found.outcomes.items()},
        pairs,
        {row["query_id"]: str(row.get(by, "")) for row in bench.gold},
    )
    without = {r.name: ", ".join(r.pipeline.left_out) for r in rows if r.pipeline.left_out}
    summary |= {"off": without | lost, "pairs": [each.as_dict() for each in compared]}
    more = [*readable_chance(summary.get("chance", {})), readable_pairs(compared)]
    table = readable([*found.rows, *found.controls], baseline, given.get("shown"))
    shown = readable_systems(summary["off"] if off is not None else {}, unfair)
    say("\n".join([*found.seen.said(), table]) + "\n".join(more) + shown)
    took = {"out": config["out"], "seconds": round(time.perf_counter() - started, 3)}
    return summary | took
