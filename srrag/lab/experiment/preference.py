"""`srrag evaluate bench=preference`: which of two systems' evidence a judge prefers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from srrag.core.errors import UsageError
from srrag.core.figures import printed
from srrag.lab.experiment.answers import answered_systems, questions_seen, read_gold
from srrag.lab.experiment.judging import judge, judged_in, judges
from srrag.lab.experiment.systems import System
from srrag.lab.experiment.terms import Terms
from srrag.lab.measure.preference import pair_evidence, preference_figures
from srrag.runner.progress import say
from srrag.runner.summary import calls_made

_JUDGE = "preference"
"""The judge of `bench.judges` that compares."""


def evaluate_preference(terms: Terms, compared: Sequence[System]) -> dict[str, Any]:
    """Compare the evidence of a system with its baseline's; raises UsageError without one."""
    started = time.perf_counter()
    steps = judges(terms.bench["judges"])
    gold, faulty = read_gold(terms.bench, terms.path)
    systems = answered_systems(terms, compared, gold)
    if "baseline" not in systems:
        raise UsageError(
            "bench=preference compares two: baseline=PIPELINE, or bench.baseline_answers=FILE"
        )
    (cases, one), (others, two) = systems["pipeline"], systems["baseline"]
    seen = questions_seen(terms.in_sample, gold, steps, [one, two])
    store = judged_in(terms.root, terms.out)
    judged, usage = judge(store, terms.running, pair_evidence(cases.table, others.table), steps)
    table = judged[_JUDGE]
    lost = len(set(table.filter(table["reject"].is_valid())["query_id"].to_pylist()))
    summary: dict[str, Any] = {
        "questions": len(gold),
        "faulty_questions": len(faulty),
        "judge": terms.judge,
        "system": one.name,
        "baseline": two.name,
        "not_judged": lost,
        "metrics": preference_figures(table, seen.apart, **terms.resampling),
        **calls_made({"judge": usage}, len(gold)),
        "seconds": round(time.perf_counter() - started, 3),
        "ok": lost < len(gold),
    }
    told = [f"{len(gold)} questions, judged by {summary['judge']}; {one.name} over {two.name}"]
    told += [f"  {name:<16}{printed(each)}" for name, each in summary["metrics"].items()]
    say("\n".join([*seen.said(), *told]) + "\n")
    return summary
