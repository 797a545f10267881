"""`srrag evaluate bench=preference`: whose evidence a judge prefers, of two systems."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from srrag.errors import UsageError
from srrag.evaluate.preference import pair_evidence, preference_figures
from srrag.experiment.answers import answered_systems, questions_seen, read_gold
from srrag.experiment.judging import judge, judge_name, judged_in, judges
from srrag.experiment.running import Running
from srrag.figures import printed
from srrag.runner.progress import say
from srrag.runner.summary import calls_made

_JUDGE = "preference"
"""The judge of `bench.judges` that compares."""


def evaluate_preference(config: dict[str, Any], path: Path) -> dict[str, Any]:
    """Compare the evidence of a system with its baseline's; raises UsageError without one."""
    started = time.perf_counter()
    steps = judges(config["bench"]["judges"])
    gold, faulty = read_gold(config, path)
    systems = answered_systems(config, gold)
    if "baseline" not in systems:
        raise UsageError(
            "bench=preference compares two: baseline=PIPELINE, or bench.baseline_answers=FILE"
        )
    (cases, one), (others, two) = systems["pipeline"], systems["baseline"]
    seen = questions_seen(config, gold, steps, [one, two])
    store, running = judged_in(config["root"], config["out"]), Running.of(config)
    judged, usage = judge(store, running, pair_evidence(cases.table, others.table), steps)
    table = judged[_JUDGE]
    lost = len(set(table.filter(table["reject"].is_valid())["query_id"].to_pylist()))
    given = {"resamples": config["resamples"], "seed": config["seed"]}
    summary: dict[str, Any] = {
        "questions": len(gold),
        "faulty_questions": len(faulty),
        "judge": judge_name(config),
        "system": one.name,
        "baseline": two.name,
        "not_judged": lost,
        "metrics": preference_figures(table, seen.apart, **given),
        **calls_made({"judge": usage}, len(gold)),
        "seconds": round(time.perf_counter() - started, 3),
        "ok": lost < len(gold),
    }
    told = [f"{len(gold)} questions, judged by {summary['judge']}; {one.name} over {two.name}"]
    told += [f"  {name:<16}{printed(each)}" for name, each in summary["metrics"].items()]
    say("\n".join([*seen.said(), *told]) + "\n")
    return summary
