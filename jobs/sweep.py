"""`srrag sweep`: many configurations over shared stages → one table, written as results."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.config import factory
from srrag.engine.base import Model
from srrag.errors import UsageError
from srrag.evaluate.chance import chance, readable_chance
from srrag.evaluate.references import resource_path
from srrag.evaluate.scores import figure
from srrag.experiment.configurations import Configuration, configurations
from srrag.experiment.controls import control_figures
from srrag.experiment.in_sample import InSample, in_sample, united
from srrag.experiment.outcome import Outcome
from srrag.experiment.pairs import paired, readable_pairs
from srrag.experiment.record import bench_name, control_row, score_tables
from srrag.experiment.scoring import Bench, read_bench
from srrag.experiment.table import SHOWN, compared, judged_fit, readable
from srrag.llm.completion import Usage
from srrag.report.provenance import models_of
from srrag.report.results import gold_table, write_answers, write_judgements, write_results
from srrag.report.row import Failure, Figure, Row
from srrag.report.seeds import spreads
from srrag.runner.build import versions
from srrag.runner.engines import engines_of
from srrag.runner.progress import say
from srrag.runner.summary import calls_made, usage_of
from srrag.runner.sweep import Sweep
from srrag.spec import spec
from srrag.step import Place
from srrag.storage.store import Receipt, Store

_SHOWN_FAILURES = 50


@dataclass(frozen=True)
class Placed:
    """A configuration in the group of those that run on its build."""

    row: Configuration
    sweep: Sweep
    number: int
    at: Place


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Run what is missing of all configurations, score them, and write the table."""
    started = time.perf_counter()
    out, path = Path(config["out"]), resource_path(config["bench"]["path"])
    bench = read_bench(config, path)
    rows = configurations(config, bench.asked)
    baseline = config["sweep"]["baseline"] or rows[0].name
    if baseline not in (names := [row.name for row in rows]):
        raise UsageError(f"sweep.baseline={baseline}: there are {', '.join(names)}")
    say(f"{len(rows)} configurations, {bench.questions.num_rows} questions")
    for row in rows:
        say(f"  {row.name}: {row.command(str(path), config['engine'])}")
    placed = _placed(config, rows)
    sweeps = list({id(each.sweep): each.sweep for each in placed}.values())
    seen = _seen(config, bench, rows)
    before = sum(_standing(sweep, bench.questions) for sweep in sweeps)
    made, outcomes = [], {}
    with factory.runner(config).session():
        reasons = _run_all(placed, bench.questions)
        for each in placed:
            reason = reasons.get(each.row.name, "")
            if bench.judge and not reason:
                say(f"judging {each.row.name}")
            outcome, row_ = _row(each, bench, config, reason, seen)
            outcomes[row_.name] = outcome
            made.append(row_)
        controls, told = bench.tried(outcomes, baseline, seen)
    made = judged_fit(compared(made, outcomes, baseline, rows), told)
    beside = next(row for row in made if row.name == baseline)
    tried = [control_row(beside, name, each, config) for name, each in controls.items()]
    gold = gold_table(bench_name(config), bench.gold)
    known = gold["query_id"].to_pylist()
    tables = [
        table
        for name, each in ({n: o.scores for n, o in outcomes.items()} | controls).items()
        for table in score_tables(name, each, known, seen)
    ]
    write_results(out, [*made, *tried], tables, gold)
    summary = _summary(made, outcomes, sweeps, bench, before)
    summary |= {"baseline": baseline, "out": str(out)}
    summary |= {"controls": control_figures(controls), "unfit": told}
    pairs = paired(
        {name: each.scores for name, each in outcomes.items()},
        config["sweep"].get("pairs") or {},
        {row["query_id"]: str(row.get(config["bench"].get("by") or "", "")) for row in bench.gold},
    )
    summary["chance"] = chance(getattr(bench, "rows", ()), config["bench"].get("by"))
    summary["pairs"] = [each.as_dict() for each in pairs]
    summary["seconds"] = round(time.perf_counter() - started, 3)
    more = "\n".join([*readable_chance(summary["chance"]), readable_pairs(pairs)])
    table = readable([*made, *tried], baseline, config["sweep"].get("shown") or SHOWN)
    say("\n".join([*seen.said(), table]) + more)
    return summary


def _seen(config: Mapping[str, Any], bench: Bench, rows: Sequence[Configuration]) -> InSample:
    """What the judges, or a part of any row, were fitted on: all rows count the same questions."""
    questions = bench.questions.select(["query_id", "text"]).to_pylist()
    return united(
        [
            in_sample([*bench.learned, *row.pipeline.steps], questions, config["in_sample"])
            for row in rows
        ]
    )


def _placed(config: dict[str, Any], rows: Sequence[Configuration]) -> list[Placed]:
    """Group the configurations by the build that they read: a group shares its stages."""
    groups: dict[tuple[str, str], list[Configuration]] = {}
    for row in rows:
        groups.setdefault((str(row.run.store.root), row.run.build), []).append(row)
    placed: dict[str, Placed] = {}
    for (root, build), group in groups.items():
        pipelines = tuple(row.pipeline for row in group)
        resources = partial(factory.resources, config)
        sweep = Sweep(Store(root), build, pipelines, factory.runner(config), resources)
        at = sweep.place(factory.place(config))
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
    each: Placed, bench: Bench, config: dict[str, Any], reason: str, seen: InSample
) -> tuple[Outcome, Row]:
    """Score a configuration, keep what it made, and state it."""
    row, questions, out = each.row, bench.questions, Path(config["out"])
    stated: dict[str, Any] = {
        "name": row.name,
        "bench": bench_name(config),
        "judge": bench.judge,
        "questions": questions.num_rows,
        "command": row.command(str(resource_path(config["bench"]["path"])), config["engine"]),
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
    """Of what the pipeline reads of its build, and of its own stages."""
    pointer = each.sweep.store.read_pointer(each.sweep.build)["stages"]
    needs = each.row.pipeline.needs()  # a stage that a root may lack is none of its
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
    if "insufficient" in table.column_names:
        alive = table.filter(table["reject"].is_null())
        counts["abstained"] = sum(alive["insufficient"].to_pylist())
    if len(lost) == table.num_rows:
        first = failures[0]
        detail = f"every question failed: {first.stage}: {first.reason}: {first.detail}"
        counts |= {"state": "failed", "reason": detail}
    return counts


def _costs(each: Placed, questions: pa.Table) -> dict[str, Any]:
    """What a configuration takes alone, shared stages too: seconds of work, tokens, dollars."""
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


def _standing(sweep: Sweep, questions: pa.Table) -> int:
    """Count the finished parts of the group's stages."""
    names = set(sweep.parts(questions))
    plan = sweep.plan
    return sum(
        len(names & sweep.store.parts(stage.name, plan.fingerprint(stage.name)))
        for stage in plan.steps
    )


def _summary(
    made: Sequence[Row],
    outcomes: Mapping[str, Outcome],
    sweeps: Sequence[Sweep],
    bench: Bench,
    before: int,
) -> dict[str, Any]:
    """The figures of the job."""
    standing = sum(_standing(sweep, bench.questions) for sweep in sweeps)
    failed = {row.name: row.reason for row in made if row.state == "failed"}
    broken = sorted({name for outcome in outcomes.values() for name in outcome.broken})
    once = _receipts(sweeps, bench.questions)
    usage = {"answers": usage_of(once), "judges": Usage()}
    for outcome in outcomes.values():
        usage["judges"].add(outcome.usage)
    values = {row.name: {name: f.value for name, f in row.metrics.items()} for row in made}
    return {
        "configurations": len(made),
        "failed": failed,
        "broken_judges": broken,
        "questions": len(bench.gold),
        "faulty_questions": len(getattr(bench, "faulty", ())),
        "without_gold": len(bench.gold) - bench.questions.num_rows,
        "failed_questions": sum(row.failed for row in made),
        "stages": sum(len(sweep.plan.steps) for sweep in sweeps),
        "parts": standing,
        "parts_made": standing - before,
        "seconds_stages": round(sum(receipt.seconds for receipt in once), 3),
        "seconds_unshared": round(sum(row.seconds for row in made), 3),
        **calls_made(usage, bench.questions.num_rows),
        "rows": values,
        "over_seeds": {
            each.name: {
                name: {"mean": round(mean, 4), "sd": round(sd, 4), "seeds": len(each.seeds)}
                for name, (mean, sd) in each.metrics.items()
            }
            for each in spreads(made)
        },
        "ok": not (failed or broken),
    }


def _receipts(sweeps: Sequence[Sweep], questions: pa.Table) -> list[Receipt]:
    """Of all configurations that are done, those of shared stages once."""
    found = {
        (stage.name, receipt.part): receipt
        for sweep in sweeps
        for number in range(len(sweep.pipelines))
        if sweep.stands(number, questions)
        for stage, receipts in sweep.receipts(number, questions)
        for receipt in receipts
    }
    return list(found.values())


if __name__ == "__main__":
    from srrag.config.run_job import launch

    sys.exit(launch("sweep", run, sys.argv[1:]))
