"""The figures of a sweep, or of an evaluation, as the last line of its job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from srrag.lab.experiment.bench import Bench, Outcome
from srrag.lab.experiment.controls import PREFIX
from srrag.lab.experiment.sweep import Swept, finished_parts
from srrag.lab.experiment.terms import Terms
from srrag.lab.measure.scores import by_group
from srrag.lab.report.row import Row, spreads
from srrag.llm.completion import Usage
from srrag.runner.pipeline_run import Sweep
from srrag.runner.summary import calls_made, usage_of
from srrag.storage.store import Receipt


def told(
    found: Swept, bench: Bench, terms: Terms, baseline: str, *, grouped: bool = False
) -> dict[str, Any]:
    """The figures of all rows as JSON, with what the benchmark states, counts and costs.

    Where they are `grouped` there are figures of each group of questions too; each takes as many
    resamples, which many rows would wait for.
    """
    made, sweeps = found.rows, found.sweeps
    parts = sum(finished_parts(sweep, bench.questions) for sweep in sweeps)
    failed = {row.name: row.reason for row in made if row.state == "failed"}
    broken = sorted({name for outcome in found.outcomes.values() for name in outcome.broken})
    once = _receipts(sweeps, bench.questions)
    return {
        "baseline": baseline,
        "configurations": len(made),
        "failed": failed,
        "broken_judges": broken,
        "questions": len(bench.gold),
        "without_gold": len(bench.gold) - bench.questions.num_rows,
        **bench.facts,
        "failed_questions": sum(row.failed for row in made),
        "stages": sum(len(sweep.plan.steps) for sweep in sweeps),
        "parts": parts,
        "parts_made": parts - found.parts_before,
        "seconds_stages": round(sum(receipt.seconds for receipt in once), 3),
        "seconds_unshared": round(sum(row.seconds for row in made), 3),
        **_asked(found, bench, once),
        "rows": {
            row.name: _of_row(row, found.outcomes[row.name])
            | (_groups(found.outcomes[row.name], bench, terms) if grouped else {})
            for row in made
        },
        "controls": {
            row.name.removeprefix(PREFIX): {"metrics": _metrics(row)} for row in found.controls
        },
        "unfit": dict(found.unfit),
        "over_seeds": {
            each.name: {
                name: {"mean": round(mean, 4), "sd": round(sd, 4), "seeds": len(each.seeds)}
                for name, (mean, sd) in each.metrics.items()
            }
            for each in spreads(made)
        },
        "ok": not (failed or broken),
    }


def _asked(found: Swept, bench: Bench, receipts: Sequence[Receipt]) -> dict[str, Any]:
    """The calls and tokens of answering, stages that are shared once, and of judging."""
    usage = {"answers": usage_of(receipts), "judges": Usage()}
    for outcome in found.outcomes.values():
        usage["judges"].add(outcome.usage)
    return calls_made(usage, bench.questions.num_rows)


def _groups(outcome: Outcome, bench: Bench, terms: Terms) -> dict[str, Any]:
    """The figures of a row by group, if the benchmark has groups."""
    found = by_group(outcome.scores, bench.groups, **terms.resampling)
    return {"groups": {name: {"metrics": each} for name, each in found.items()}} if found else {}


def _of_row(row: Row, outcome: Outcome) -> dict[str, Any]:
    """The figures of a row, its differences to the baseline, and what was lost."""
    figures: dict[str, Any] = {
        "failed": row.failed,
        "in_sample": row.in_sample.model_dump(),
        "metrics": _metrics(row),
        **outcome.facts,
    }
    if row.difference:
        figures["difference"] = {name: each.stated() for name, each in row.difference.items()}
    return figures


def _metrics(row: Row) -> dict[str, Any]:
    """The figures of a row with their counts, those of nothing lost too."""
    return {
        name: each.stated() | {n: getattr(each, n) for n in ("items", "failed", "left_out")}
        for name, each in row.metrics.items()
    }


def _receipts(sweeps: Sequence[Sweep], questions: pa.Table) -> list[Receipt]:
    """Receipts of all finished configurations, those of shared stages once."""
    found = {
        (stage.name, receipt.part): receipt
        for sweep in sweeps
        for number in range(len(sweep.pipelines))
        if sweep.stands(number, questions)
        for stage, receipts in sweep.receipts(number, questions)
        for receipt in receipts
    }
    return list(found.values())
