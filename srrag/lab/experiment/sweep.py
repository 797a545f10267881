"""Run many configurations over shared stages, score them, and state a row for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.core.figures import Figure
from srrag.core.spec import spec
from srrag.core.step import Place
from srrag.engine.base import Model
from srrag.lab.experiment.configurations import Configuration
from srrag.lab.experiment.in_sample import InSample, in_sample, united
from srrag.lab.experiment.outcome import Outcome
from srrag.lab.experiment.record import control_row, score_tables
from srrag.lab.experiment.running import Running
from srrag.lab.experiment.scoring import Bench
from srrag.lab.experiment.table import compared, judged_fit
from srrag.lab.measure.scores import Scores, figure
from srrag.lab.report.provenance import models_of
from srrag.lab.report.results import gold_table, write_answers, write_judgements, write_results
from srrag.lab.report.row import Failure, Row
from srrag.llm.completion import Usage
from srrag.runner.build import versions
from srrag.runner.engines import engines_of
from srrag.runner.progress import say
from srrag.runner.summary import usage_of
from srrag.runner.sweep import Sweep
from srrag.storage.store import Store

_SHOWN_FAILURES = 50


@dataclass(frozen=True)
class SweepBench:
    """The scoring of all configurations of a sweep: the benchmark, its file, and the judge.

    `engine` is the setting of the engine that judges, `in_sample` says what becomes of questions
    that a part was fitted on ("apart" or "allow").
    """

    bench: Bench
    name: str
    path: Path
    engine: Mapping[str, Any]
    in_sample: str
    resamples: int
    seed: int
    unfair: str = ""
    """Whom the benchmark is unfair to."""


@dataclass(frozen=True)
class Placed:
    """A configuration in the group of those that run on its build."""

    row: Configuration
    sweep: Sweep
    number: int
    at: Place


@dataclass(frozen=True)
class Swept:
    """A finished sweep: a row and an outcome of each configuration, and the controls."""

    rows: Sequence[Row]
    controls: Sequence[Row]
    outcomes: Mapping[str, Outcome]
    control_scores: Mapping[str, Sequence[Scores]]
    unfit: Mapping[str, str]
    """Metrics on which a control is not below the systems, with the reason."""
    seen: InSample
    sweeps: Sequence[Sweep]
    parts_before: int
    """Parts of the stages that stood before."""
    resampling: Mapping[str, int]
    """The number of resamples and the seed of the intervals."""


def run_sweep(
    scored: SweepBench,
    rows: Sequence[Configuration],
    baseline: str,
    running: Running,
    out: Path,
    off: Sequence[Row] = (),
) -> Swept:
    """Run what is missing of all configurations, score them, and write the results to `out`.

    `off` are rows that do not run here; the results have them with the reason.
    """
    bench = scored.bench
    placed = place_rows(rows, running)
    sweeps = list({id(each.sweep): each.sweep for each in placed}.values())
    seen = _seen(scored, rows)
    before = sum(standing(sweep, bench.questions) for sweep in sweeps)
    made, outcomes = [], {}
    with running.runner.session():
        reasons = _run_all(placed, bench.questions)
        for each in placed:
            reason = reasons.get(each.row.name, "")
            if bench.judge and not reason:
                say(f"judging {each.row.name}")
            outcome, row_ = _row(each, scored, out, reason, seen)
            outcomes[row_.name] = outcome
            made.append(row_)
        controls, told = bench.tried(outcomes, baseline, seen)
    made = judged_fit(compared(made, outcomes, baseline, rows), told)
    beside = next(row for row in made if row.name == baseline)
    resampling = {"resamples": scored.resamples, "seed": scored.seed}
    tried = [control_row(beside, name, each, **resampling) for name, each in controls.items()]
    gold = gold_table(scored.name, bench.gold)
    known = gold["query_id"].to_pylist()
    tables = [
        table
        for name, each in ({n: o.scores for n, o in outcomes.items()} | controls).items()
        for table in score_tables(name, each, known, seen)
    ]
    write_results(out, [*made, *off, *tried], tables, gold)
    return Swept(made, tried, outcomes, controls, told, seen, sweeps, before, resampling)


def row_off(name: str, reason: str, scored: SweepBench, command: object) -> Row:
    """A row that does not run on a root, and why."""
    return Row(
        name=name,
        bench=scored.name,
        state="failed",
        reason=f"off: {reason}",
        questions=scored.bench.questions.num_rows,
        unfair=scored.unfair,
        command=str(command),
    )


def _seen(scored: SweepBench, rows: Sequence[Configuration]) -> InSample:
    """The in-sample questions of the judges and all rows, so that all rows count the same ones."""
    bench = scored.bench
    questions = bench.questions.select(["query_id", "text"]).to_pylist()
    return united(
        [
            in_sample([*bench.learned, *row.pipeline.steps], questions, scored.in_sample)
            for row in rows
        ]
    )


def place_rows(rows: Sequence[Configuration], running: Running) -> list[Placed]:
    """Group the configurations by the build that they read: a group shares its stages."""
    groups: dict[tuple[str, str], list[Configuration]] = {}
    for row in rows:
        groups.setdefault((str(row.run.store.root), row.run.build), []).append(row)
    placed: dict[str, Placed] = {}
    for (root, build), group in groups.items():
        pipelines = tuple(row.pipeline for row in group)
        sweep = Sweep(Store(root), build, pipelines, running.runner, running.resources)
        at = sweep.place(running.place)
        for number, row in enumerate(group):
            placed[row.name] = Placed(row, sweep, number, at)
    return [placed[row.name] for row in rows]


def _run_all(placed: Sequence[Placed], questions: pa.Table) -> dict[str, str]:
    """Run every group; returns the reason of each configuration that failed, by name."""
    reasons: dict[str, str] = {}
    done: set[int] = set()
    for each in placed:
        if id(each.sweep) not in done:
            done.add(id(each.sweep))
            failed = each.sweep.run_each(questions, each.at)
            group = (other for other in placed if other.sweep is each.sweep)
            reasons |= {o.row.name: failed[o.number] for o in group if o.number in failed}
    return reasons


def _row(
    each: Placed, scored: SweepBench, out: Path, reason: str, seen: InSample
) -> tuple[Outcome, Row]:
    """Score a configuration, keep what it made, and state it."""
    row, bench, questions = each.row, scored.bench, scored.bench.questions
    stated: dict[str, Any] = {
        "name": row.name,
        "bench": scored.name,
        "judge": bench.judge,
        "questions": questions.num_rows,
        "unfair": scored.unfair,
        "command": row.command(str(scored.path), scored.engine),
        "overrides": row.overrides,
        "pipeline": spec(row.pipeline),
        "fingerprints": _fingerprints(each),
        "models": models_of(row.pipeline),
        "versions": versions(),
    }
    if reason:
        failed = {"state": "failed", "reason": reason, "failed": questions.num_rows}
        return Outcome([]), Row(**stated, **failed)
    table = each.sweep.table(each.number, questions)
    outcome = bench.score(table, each.at, seen)
    write_answers(out, row.name, bench.kept(table, each.at))
    if outcome.judgements is not None:
        write_judgements(out, row.name, outcome.judgements)
    figures = {s.metric.name: Figure(**figure(s, **row.resampling)) for s in outcome.scores}
    costs = _costs(each, questions)
    stated["in_sample"] = seen.stated(outcome.apart, **row.resampling)
    return outcome, Row(**stated, **_counts(table, outcome), **costs, metrics=figures)


def _fingerprints(each: Placed) -> dict[str, str]:
    """Fingerprints of the stages of the build that the pipeline reads, and of its own stages."""
    pointer = each.sweep.store.read_pointer(each.sweep.build)["stages"]
    needs = each.row.pipeline.needs()  # a stage that a root may lack is not counted
    read = {name: pointer[name]["fingerprint"] for name in needs if name in pointer}
    plan = each.sweep.plan
    return read | {name: plan.fingerprint(name) for name in plan.paths[each.number]}


def _counts(table: pa.Table, outcome: Outcome) -> dict[str, Any]:
    """Count failures and abstentions; if all questions failed, so did the configuration."""
    lost = table.filter(table["reject"].is_valid()).select(["query_id", "reject"]).to_pylist()
    failures = [Failure(query_id=row["query_id"], **row["reject"]) for row in lost]
    counts: dict[str, Any] = {
        "failed": len(lost),
        "failures": tuple(failures[:_SHOWN_FAILURES]),
        "missing": dict(outcome.missing),
        "broken_judges": tuple(outcome.broken),
    }
    if "state" in table.column_names:
        alive = table.filter(table["reject"].is_null())
        counts["abstained"] = alive["state"].to_pylist().count("not")
    if len(lost) == table.num_rows:
        first = failures[0]
        detail = f"every question failed: {first.stage}: {first.reason}: {first.detail}"
        counts |= {"state": "failed", "reason": detail}
    return counts


def _costs(each: Placed, questions: pa.Table) -> dict[str, Any]:
    """The cost of a configuration alone, with shared stages: seconds of work, tokens, dollars."""
    total, usd = Usage(), 0.0
    priced, seconds = True, 0.0
    for stage, receipts in each.sweep.receipts(each.number, questions):
        used = usage_of(receipts)
        total.add(used)
        seconds += sum(receipt.seconds for receipt in receipts)
        models = engines_of([stage.step])
        priced &= all(_has_price(model) for model in models) and len(models) <= 1
        usd += sum(model.price(used.tokens_in, used.tokens_out) for model in models)
    return {
        "tokens_in": total.tokens_in,
        "tokens_out": total.tokens_out,
        "calls": total.calls + total.cached,
        "usd": round(usd, 6) if priced else None,
        "seconds": round(seconds, 3),
    }


def _has_price(model: Model) -> bool:
    return None not in (model.usd_per_mtok_in, model.usd_per_mtok_out)


def standing(sweep: Sweep, questions: pa.Table) -> int:
    """Count the finished parts of the group's stages."""
    names = set(sweep.parts(questions))
    plan = sweep.plan
    return sum(
        len(names & sweep.store.parts(stage.name, plan.fingerprint(stage.name)))
        for stage in plan.steps
    )
