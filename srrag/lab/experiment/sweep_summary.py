"""The figures of a sweep, as the last line of its job and as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from srrag.lab.experiment.bench import Bench
from srrag.lab.experiment.controls import control_figures
from srrag.lab.experiment.pairs import paired, readable_pairs
from srrag.lab.experiment.sweep import Swept, finished_parts
from srrag.lab.experiment.table import readable
from srrag.lab.measure.scores import readable_chance
from srrag.lab.report.row import Row, spreads
from srrag.llm.completion import Usage
from srrag.runner.summary import calls_made, usage_of
from srrag.runner.sweep import Sweep
from srrag.storage.store import Receipt


def told(
    found: Swept,
    bench: Bench,
    baseline: str,
    *,
    pairs: Sequence[tuple[str, str]],
    by: str | None,
    shown: Sequence[str] | None,
    resampling: Mapping[str, int],
) -> tuple[dict[str, Any], str]:
    """The figures of a sweep as JSON, and as text: rows, controls, chance, and `pairs` by group."""
    compared = paired(
        {name: each.scores for name, each in found.outcomes.items()},
        pairs,
        {row["query_id"]: str(row.get(by or "", "")) for row in bench.gold},
    )
    by_chance = bench.facts.get("chance", {})
    table = readable([*found.rows, *found.controls], baseline, shown)
    text = "\n".join([*found.seen.said(), table])
    more = [*readable_chance(by_chance), readable_pairs(compared)]
    summary = _figures(found, bench) | {
        "baseline": baseline,
        "controls": control_figures(found.control_scores, **resampling),
        "unfit": dict(found.unfit),
        "chance": by_chance,
        "pairs": [each.as_dict() for each in compared],
    }
    return summary, text + "\n".join(more)


def _figures(found: Swept, bench: Bench) -> dict[str, Any]:
    """Counts, costs, and the metrics of each row."""
    made, outcomes, sweeps = found.rows, found.outcomes, found.sweeps
    parts = sum(finished_parts(sweep, bench.questions) for sweep in sweeps)
    failed = {row.name: row.reason for row in made if row.state == "failed"}
    broken = sorted({name for outcome in outcomes.values() for name in outcome.broken})
    once = _receipts(sweeps, bench.questions)
    return {
        "configurations": len(made),
        "failed": failed,
        "broken_judges": broken,
        "questions": len(bench.gold),
        "faulty_questions": bench.facts.get("faulty_questions", 0),
        "without_gold": len(bench.gold) - bench.questions.num_rows,
        "failed_questions": sum(row.failed for row in made),
        "stages": sum(len(sweep.plan.steps) for sweep in sweeps),
        "parts": parts,
        "parts_made": parts - found.parts_before,
        "seconds_stages": round(sum(receipt.seconds for receipt in once), 3),
        "seconds_unshared": round(sum(row.seconds for row in made), 3),
        **asked(found, bench),
        "rows": {row.name: row_figures(row) for row in made},
        "over_seeds": {
            each.name: {
                name: {"mean": round(mean, 4), "sd": round(sd, 4), "seeds": len(each.seeds)}
                for name, (mean, sd) in each.metrics.items()
            }
            for each in spreads(made)
        },
        "ok": not (failed or broken),
    }


def asked(found: Swept, bench: Bench) -> dict[str, Any]:
    """The calls and tokens of answering, stages that are shared once, and of judging."""
    usage = {"answers": usage_of(_receipts(found.sweeps, bench.questions)), "judges": Usage()}
    for outcome in found.outcomes.values():
        usage["judges"].add(outcome.usage)
    return calls_made(usage, bench.questions.num_rows)


def row_figures(row: Row) -> dict[str, Any]:
    """The metrics of a row, and its differences to the baseline, as a summary states them."""
    metrics = {name: each.stated() for name, each in row.metrics.items()}
    if not row.difference:
        return {"metrics": metrics}
    more = {name: each.stated() for name, each in row.difference.items()}
    return {"metrics": metrics, "difference": more}


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
