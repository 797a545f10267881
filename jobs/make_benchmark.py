"""`srrag make_benchmark`: from a finished build to a benchmark, with what reviewers decide on."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from srrag.benchmark.decisions import (
    ReviewDecision,
    apply,
    check_decisions,
    counted,
    read_decisions,
    revised_nuggets,
)
from srrag.benchmark.pool import pooled
from srrag.benchmark.relations import POOLED, QUESTIONED, REFERENCED
from srrag.benchmark.release import question_row
from srrag.config import factory
from srrag.config.compose import with_pipeline
from srrag.errors import UsageError, reading
from srrag.experiment.benchmark_files import rebuild, report, write
from srrag.experiment.benchmark_stages import Counted, Stages, Standing
from srrag.retrieve.questions import question_table
from srrag.rows import Row
from srrag.runner.estimate import readable
from srrag.runner.part import live
from srrag.runner.progress import say
from srrag.runner.summary import calls_made
from srrag.storage.store import Store
from srrag.units import Units

STEPS = ("dense", "questions", "support", "reference", "nuggets")


@dataclass
class Dropped:
    """All rows that a stage rejected or failed on."""

    rows: list[Row] = field(default_factory=list)

    def take(self, table: pa.Table) -> pa.Table:
        """Note the rejected rows of a table; returns the others."""
        for row in table.filter(pc.is_valid(table["reject"])).to_pylist():
            self.add(row, **row["reject"])
        return live(table)

    def add(self, row: Row, stage: str, reason: str, detail: str) -> None:
        """Note a row."""
        known = {"row_id": row["query_id"], "source": row["source_id"]}
        self.rows.append({"stage": stage, **known, "reason": reason, "detail": detail})

    def counts(self) -> dict[str, dict[str, int]]:
        """How many, by stage and reason."""
        found: dict[str, Counter[str]] = {}
        for row in self.rows:
            found.setdefault(row["stage"], Counter())[row["reason"]] += 1
        return {stage: dict(reasons.most_common()) for stage, reasons in found.items()}


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Make the benchmark, rebuild one, or estimate the cost of making it."""
    check(config)
    Store(config["root"]).check()
    if config["rebuild"]:
        return rebuild(config)
    if config["estimate"]:
        return estimate(config)
    started = time.perf_counter()
    decisions, undecided = _decisions(config)
    stages = Standing.of(config)
    with stages.store.lock(), factory.runner(config).session():
        figures = make(config, stages, decisions)
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


def check(config: dict[str, Any]) -> None:
    """Raise UsageError for a wrong setting before the job reads any data."""
    for name in ("accessible_at", "pool_windows"):
        value = config[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(f"{name}={value}: a whole number above 0 is needed")
    share = config["validation_share"]
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 1:
        raise UsageError(f"validation_share={share} is not in 0…1")
    most = config["copied_words"]
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise UsageError(f"copied_words={most}: a whole number above 0, or null")
    if not isinstance(config["pool"], list):
        raise UsageError(f"pool={config['pool']}: a list of pipelines is needed, as [bm25,hybrid]")


def make(
    config: dict[str, Any], stages: Stages, decisions: Sequence[ReviewDecision]
) -> dict[str, Any]:
    """Run all stages and write the files; returns the counts."""
    dropped = Dropped()
    referenced, counts = candidates(config, stages, dropped)
    rows = referenced.to_pylist()
    why = {row["row_id"]: f"dropped at {row['stage']} ({row['reason']})" for row in dropped.rows}
    try:
        check_decisions(decisions, rows, why)
        kept, refused = apply(decisions, rows)
    except ValueError as error:
        raise UsageError(str(error)) from error
    for row in refused:
        dropped.add(row, "review", "rejected", "a reviewer rejected the question")
    step = factory.make(config["nuggets"], "nuggets")
    table = pa.Table.from_pylist(kept, schema=REFERENCED)
    finished = dropped.take(stages.run("reviewed", table, {"nuggets": step})["nuggets"])
    decided = {each.query_id: each for each in decisions}
    asking = (factory.make(config[name], name) for name in STEPS[1:])
    model = ", ".join(dict.fromkeys(each.engine.name for each in asking))
    texts: dict[str, list[str]] = {}
    questions = []
    for row in finished.to_pylist():
        decision = decided.get(row["query_id"])
        texts[row["query_id"]] = [row["window"], *(each["text"] for each in row["gold"])]
        row["nuggets"] = revised_nuggets(decision) or row["nuggets"]
        questions.append(question_row(row, model) | {"review": _review(decision)})
    if isinstance(stages, Counted):
        return counts
    written = write(config, questions, texts, dropped.rows)
    return {**counts, **written, "dropped": dropped.counts(), "model": model}


def candidates(
    config: dict[str, Any], stages: Stages, dropped: Dropped
) -> tuple[pa.Table, dict[str, Any]]:
    """Return the questions with gold and answers before review, and the counts of each stage."""
    steps = {name: factory.make(config[name], name) for name in STEPS}
    units = Units(Store(config["root"]).artifacts(config["build"])["units"])
    seeds = factory.make(config["sample"], "sample").draw(units)
    say(f"{seeds.num_rows:,} of {len(units):,} windows are sampled")
    made = stages.run("seeds", seeds, {name: steps[name] for name in ("dense", "questions")})
    dense = dropped.take(made["dense"])
    written = once_each(dropped.take(made["questions"]), dropped)
    table = pool(config, stages, units, written) if written.num_rows else POOLED.empty_table()
    table = dropped.take(table)
    made = stages.run("pooled", table, {name: steps[name] for name in ("support", "reference")})
    gold = dropped.take(made["support"])
    referenced = dropped.take(made["reference"])
    tracks = Counter(table["track"].to_pylist())
    counts = {
        "sampled": seeds.num_rows,
        "dense": dense.num_rows,
        "written": written.num_rows,
        "main": tracks["main"],
        "challenge": tracks["challenge"],
        "with_gold": gold.num_rows,
        "with_answers": referenced.num_rows,
        "candidates_not_graded": pc.sum(gold["not_graded"]).as_py() or 0,
        "quotes_not_found": pc.sum(gold["whole_windows"]).as_py() or 0,
        "statements_dropped": pc.sum(referenced["dropped_statements"]).as_py() or 0,
    }
    return referenced, counts


def once_each(table: pa.Table, dropped: Dropped) -> pa.Table:
    """Drop questions whose text repeats an earlier one, ignoring case."""
    first: dict[str, str] = {}
    kept = []
    for row in table.to_pylist():
        key = " ".join(row["text"].casefold().split())
        if (before := first.setdefault(key, row["query_id"])) == row["query_id"]:
            kept.append(row)
        else:
            dropped.add(row, "questions", "duplicate", f"asks the same as {before}")
    return pa.Table.from_pylist(kept, schema=QUESTIONED)


def pool(config: dict[str, Any], stages: Stages, units: Units, written: pa.Table) -> pa.Table:
    """Tracks and candidates, by the baseline and the pipelines of the pool."""
    names = ("query_id", "text", "picot")
    questions = question_table(written.select(list(names)).to_pylist())
    configs = {"pipeline": config}
    for name in config["pool"]:
        configs[f"pool.{name}"] = with_pipeline("make_benchmark", config, str(name))
    accessible, *rankings = stages.rank(configs, questions)
    at, depth = config["accessible_at"], config["pool_windows"]
    return pooled(written, units, accessible, rankings, at, depth)


def _decisions(config: dict[str, Any]) -> tuple[list[ReviewDecision], int]:
    given = config["decisions"] or []
    paths = [Path(str(each)) for each in (given if isinstance(given, list) else [given])]
    for path in paths:
        if not path.is_file():
            raise UsageError(f"decisions={path} is not a file")
    with reading(*paths):
        return read_decisions(paths)


def _review(decision: ReviewDecision | None) -> dict[str, str]:
    if decision is None:
        return {"decision": "", "comment": ""}
    return {"decision": decision.decision, "comment": decision.comment}


def estimate(config: dict[str, Any]) -> dict[str, Any]:
    """Estimate the cost of the prompts; the rules write the questions that no log holds."""
    stages = Counted.of(config)
    found = make(config, stages, [])
    if not stages.counting:
        raise ValueError("estimate: the engine is 'rules', which calls nothing")
    summary = {**stages.figures(found["sampled"]), "counts": found}
    say(readable(summary))
    config["out"] = None  # an estimate leaves no trace
    return summary


if __name__ == "__main__":
    from srrag.config.run_job import launch

    sys.exit(launch("make_benchmark", run, sys.argv[1:]))
