"""`srrag evaluate bench=preference`: which of two systems' evidence a judge prefers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from srrag.core.errors import UsageError
from srrag.core.figures import printed
from srrag.lab.experiment.answers import Answers
from srrag.lab.experiment.configurations import Configuration
from srrag.lab.experiment.judging import judge, judged_in
from srrag.lab.experiment.sweep import in_sample_of, place_rows, run_all
from srrag.lab.experiment.terms import Terms
from srrag.lab.measure.cases import make_cases
from srrag.lab.measure.preference import pair_evidence, preference_figures
from srrag.runner.progress import say
from srrag.runner.summary import calls_made

_JUDGE = "preference"
"""The judge of `bench.judges` that compares."""


def evaluate_preference(
    terms: Terms, bench: Answers, rows: Sequence[Configuration]
) -> dict[str, Any]:
    """Compare the evidence of a system with its baseline's; raises UsageError without one."""
    if len(rows) < 2:
        raise UsageError(
            "bench=preference compares two: baseline=PIPELINE, or bench.baseline_answers=FILE"
        )
    seen, placed = in_sample_of(bench, terms, rows), place_rows(rows, terms.running)
    run_all(placed, bench.questions, alone=True)
    one, other = (make_cases(bench.rows, each.table(bench.questions)).table for each in placed)
    store = judged_in(terms.root, terms.out)
    judged, usage = judge(store, terms.running, pair_evidence(one, other), bench.steps)
    table, asked = judged[_JUDGE], len(bench.rows)
    lost = len(set(table.filter(table["reject"].is_valid())["query_id"].to_pylist()))
    summary: dict[str, Any] = {
        "questions": asked,
        "faulty_questions": len(bench.faulty),
        "judge": terms.judge,
        "system": rows[0].name,
        "baseline": rows[1].name,
        "not_judged": lost,
        "metrics": preference_figures(table, seen.apart, **terms.resampling),
        **calls_made({"judge": usage}, asked),
        "ok": lost < asked,
    }
    told = [f"{asked} questions, judged by {terms.judge}; {rows[0].name} over {rows[1].name}"]
    told += [f"  {name:<16}{printed(each)}" for name, each in summary["metrics"].items()]
    say("\n".join([*seen.said(), *told]) + "\n")
    return summary
