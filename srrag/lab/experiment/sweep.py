"""Run systems over shared stages, score them on a benchmark, and state a row for each.

`srrag sweep` compares any number with a baseline, `srrag evaluate` one, or two with one another.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from srrag.core.errors import UsageError
from srrag.core.figures import Figure
from srrag.core.spec import spec
from srrag.core.step import Place
from srrag.engine.base import Model
from srrag.lab.experiment.answers import asked_of
from srrag.lab.experiment.bench import Bench, InSample, Outcome, in_sample
from srrag.lab.experiment.configurations import Configuration, RowOff
from srrag.lab.experiment.running import Running, Terms
from srrag.lab.experiment.table import compared, judged_fit
from srrag.lab.measure.scores import Scores, figure
from srrag.lab.report.results import (
    gold_table,
    remove_kept,
    scored,
    write_answers,
    write_judgements,
    write_results,
)
from srrag.lab.report.row import Failure, Row, models_of
from srrag.llm.completion import Usage
from srrag.runner.doctor import PACKAGES, installed
from srrag.runner.engines import engines_of
from srrag.runner.pipeline_run import Sweep
from srrag.runner.progress import say
from srrag.runner.summary import usage_of
from srrag.storage.mapped_table import Lookup
from srrag.storage.mirror import pull_build
from srrag.storage.store import Store

_SHOWN_FAILURES = 50


@dataclass(frozen=True)
class Placed:
    """A row in the group of those that run on its build; `sweep` is None for stored answers."""

    row: Configuration
    sweep: Sweep | None
    number: int
    at: Place

    def table(self, questions: pa.Table) -> pa.Table:
        """The output of a row that has run, or its stored answers."""
        if self.sweep is not None:
            return self.sweep.table(self.number, questions)
        assert self.row.stored is not None
        return self.row.stored


@dataclass(frozen=True)
class Swept:
    """A finished sweep: a row and an outcome of each configuration, and the controls."""

    rows: Sequence[Row]
    controls: Sequence[Row]
    outcomes: Mapping[str, Outcome]
    unfit: Mapping[str, str]
    """Metrics on which a control is not below the systems, with the reason."""
    seen: InSample
    sweeps: Sequence[Sweep]
    parts_before: int
    """Parts of the stages that stood before."""


def run_sweep(
    bench: Bench,
    terms: Terms,
    rows: Sequence[Configuration],
    baseline: str,
    *,
    off: Sequence[Row] = (),
    unfair: str = "",
    alone: bool = False,
) -> Swept:
    """Run what is missing of all rows, score them, and write the results to `terms.out`, if given.

    `off` are rows that do not run here; the results have them with the reason. `unfair` says whom
    the benchmark is unfair to. With `alone` a row that fails raises its error, and p-values are
    corrected over the metrics of the first row, not over the rows.
    """
    out = terms.out
    gold = gold_table(terms.name, bench.gold)  # what is odd in the file is found before any run
    placed = place_rows(rows, terms.running)
    sweeps = list({id(each.sweep): each.sweep for each in placed if each.sweep}.values())
    seen = in_sample_of(bench, terms, rows)
    before = sum(finished_parts(sweep, bench.questions) for sweep in sweeps)
    made, outcomes = [], {}
    with terms.running.runner.session():
        reasons = run_all(placed, bench.questions, alone=alone)
        for each in placed:
            reason = reasons.get(each.row.name, "")
            if bench.judge and not reason and not alone:
                say(f"judging {each.row.name}")
            outcome, row_ = _row(each, bench, terms, unfair, reason, seen)
            outcomes[row_.name] = outcome
            made.append(row_)
        first = rows[0].name if alone else baseline
        controls, told = bench.tried(outcomes, first, seen)
    made = judged_fit(compared(made, outcomes, baseline, rows, over_rows=not alone), told)
    beside = next(row for row in made if row.name == baseline)
    tried = [control_row(beside, name, each, **terms.resampling) for name, each in controls.items()]
    if out:
        for row in off:
            remove_kept(out, row.name)
        known = gold["query_id"].to_pylist()
        tables = [
            table
            for name, each in ({n: o.scores for n, o in outcomes.items()} | controls).items()
            for table in score_tables(name, each, known, seen)
        ]
        write_results(out, [*made, *off, *tried], tables, gold)
    return Swept(made, tried, outcomes, told, seen, sweeps, before)


def row_off(name: str, off: RowOff, bench: Bench, terms: Terms, unfair: str) -> Row:
    """A row that does not run on a root, and why."""
    return Row(
        name=name,
        bench=terms.name,
        state="failed",
        reason=f"off: {off.reason}",
        questions=bench.questions.num_rows,
        unfair=unfair,
        command=shlex.join(off.overrides),
    )


def in_sample_of(bench: Bench, terms: Terms, rows: Sequence[Configuration]) -> InSample:
    """The in-sample questions of the judges and all rows, so that all rows count the same ones."""
    questions = bench.questions.select(["query_id", "text"]).to_pylist()
    steps = [step for row in rows for step in row.steps]
    return in_sample([*bench.learned, *steps], questions, terms.in_sample)


def check_windows(rows: Sequence[Configuration], root: str, build: str) -> None:
    """Raise UsageError for a row that lacks windows of the build that gold is read from.

    Cut otherwise, windows have other ids, so that all that the row finds would count as wrong.
    """
    home = _windows(Store(root), build)
    for row in rows:
        own = _windows(row.run.store, row.run.build) if row.run else home
        if own != home and not _lookup(own).holds(_lookup(home)):
            raise UsageError(
                f"configuration {row.name!r}: its build has other windows than build={build}, "
                "whose windows are gold here; evaluate it by itself"
            )


def _windows(store: Store, build: str) -> Path:
    return store.artifacts(build)["units"]


def _lookup(folder: Path) -> Lookup:
    pull_build(folder)
    return Lookup.of(folder, "units")


def place_rows(rows: Sequence[Configuration], running: Running) -> list[Placed]:
    """Group the configurations by the build that they read: a group shares its stages."""
    groups: dict[tuple[str, str], list[Configuration]] = {}
    for row in rows:
        if row.run:
            groups.setdefault((str(row.run.store.root), row.run.build), []).append(row)
    placed = {row.name: Placed(row, None, 0, running.place) for row in rows}
    for (root, build), group in groups.items():
        pipelines = tuple(row.pipeline for row in group)
        sweep = Sweep(Store(root), build, pipelines, running.runner, running.resources)
        at = sweep.place(running.place)
        for number, row in enumerate(group):
            placed[row.name] = Placed(row, sweep, number, at)
    return list(placed.values())


def run_all(placed: Sequence[Placed], questions: pa.Table, *, alone: bool) -> dict[str, str]:
    """Run every group; returns the reason of each configuration that failed, by name.

    With `alone` the first failure is raised.
    """
    reasons: dict[str, str] = {}
    groups: dict[int, list[Placed]] = {}
    for each in placed:
        groups.setdefault(id(each.sweep), []).append(each)
    for group in groups.values():
        if (sweep := group[0].sweep) is None:
            continue
        if alone:
            sweep.run(questions, group[0].at)
            continue
        failed = sweep.run_each(questions, group[0].at)
        reasons |= {o.row.name: failed[o.number] for o in group if o.number in failed}
    return reasons


def _row(
    each: Placed, bench: Bench, terms: Terms, unfair: str, reason: str, seen: InSample
) -> tuple[Outcome, Row]:
    """Score a configuration, keep what it made, and state it."""
    row, questions = each.row, bench.questions
    stated: dict[str, Any] = {
        "name": row.name,
        "bench": terms.name,
        "judge": bench.judge,
        "questions": questions.num_rows,
        "unfair": unfair,
        "command": row.command(str(terms.path), terms.engine),
        "overrides": row.overrides,
        "versions": installed(PACKAGES),
        **_origin(each),
    }
    if reason:
        if terms.out:
            remove_kept(terms.out, row.name)
        failed = {"state": "failed", "reason": reason, "failed": questions.num_rows}
        return Outcome([]), Row(**stated, **failed)
    table = each.table(questions)
    outcome = bench.score(table, each.at, seen)
    table = asked_of(table, questions["query_id"].to_pylist())
    if terms.out:
        kept = bench.kept(table, each.at)
        if outcome.judgements is None:
            remove_kept(terms.out, row.name)
        write_answers(terms.out, row.name, kept)
        if outcome.judgements is not None:
            write_judgements(terms.out, row.name, outcome.judgements)
    figures = {s.metric.name: Figure(**figure(s, **row.resampling)) for s in outcome.scores}
    costs = _costs(each, questions)
    stated["in_sample"] = seen.stated(outcome.apart, **row.resampling)
    return outcome, Row(**stated, **_counts(table, outcome), **costs, metrics=figures)


def _origin(each: Placed) -> dict[str, Any]:
    """The pipeline, and the fingerprints of its stages and of those of the build that it reads.

    It is empty for stored answers, whose origin is unknown.
    """
    if each.sweep is None:
        return {}
    pointer = each.sweep.store.read_pointer(each.sweep.build)["stages"]
    needs = each.row.pipeline.needs()  # a stage that a root may lack is not counted
    read = {name: pointer[name]["fingerprint"] for name in needs if name in pointer}
    plan = each.sweep.plan
    return {
        "pipeline": spec(each.row.pipeline),
        "fingerprints": read | {name: plan.fingerprint(name) for name in plan.paths[each.number]},
        "models": models_of(each.row.pipeline),
    }


def _counts(table: pa.Table, outcome: Outcome) -> dict[str, Any]:
    """Count failures and abstentions; if all questions failed, so did the configuration."""
    lost = table.filter(table["reject"].is_valid()).select(["query_id", "reject"]).to_pylist()
    failures = [Failure(query_id=row["query_id"], **row["reject"]) for row in lost]
    counts: dict[str, Any] = {
        "failed": sum(outcome.missing.values()),
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
    for stage, receipts in each.sweep.receipts(each.number, questions) if each.sweep else ():
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
        "usd": round(usd, 6) if priced and each.sweep else None,
        "seconds": round(seconds, 3),
    }


def _has_price(model: Model) -> bool:
    return None not in (model.usd_per_mtok_in, model.usd_per_mtok_out)


def finished_parts(sweep: Sweep, questions: pa.Table) -> int:
    """Count the finished parts of the group's stages."""
    names = set(sweep.parts(questions))
    plan = sweep.plan
    return sum(
        len(names & sweep.store.parts(stage.name, plan.fingerprint(stage.name)))
        for stage in plan.steps
    )


def control_row(
    beside: Row, name: str, scores: Sequence[Scores], *, resamples: int, seed: int
) -> Row:
    """Make the row of a control, with benchmark and judge of a system that it stands beside."""
    resampling = {"resamples": resamples, "seed": seed}
    return Row(
        name=name,
        bench=beside.bench,
        judge=beside.judge,
        questions=max((len(each.questions) for each in scores), default=0),
        metrics={each.metric.name: Figure(**figure(each, **resampling)) for each in scores},
        command=beside.command,
        control=True,
        unfit=beside.unfit,
        versions=beside.versions,
    )


def bench_group(overrides: Sequence[str], kind: str) -> str:
    """The benchmark as the last `bench=` of a command names it, else its kind."""
    named = [item.partition("=")[2] for item in overrides if item.startswith("bench=")]
    return named[-1] if named else kind


def score_tables(
    name: str, scores: Sequence[Scores], questions: Sequence[str], seen: InSample
) -> list[pa.Table]:
    """Return QUESTIONS tables of a system, one a metric; left-out questions have the reason.

    Void scores are no values, so that their questions are left out too.
    """
    tables = []
    none: dict[str, Any] = {"questions": (), "parts": np.zeros(0), "wholes": np.zeros(0)}
    for each in (replace(one, **none) if one.void else one for one in scores):
        counted = set(each.questions)
        reason = each.void_reason if each.void else f"it lacks {each.metric.needs}"
        left_out = {
            query: seen.reason if query in seen.apart else reason
            for query in questions
            if query not in counted
        }
        values = each.parts, each.wholes
        tables.append(scored(name, each.metric.name, each.questions, *values, left_out))
    return tables
