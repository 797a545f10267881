"""`srrag evaluate bench=nli`: how well the judge of nuggets agrees with physicians."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from srrag.core.errors import UsageError, reading
from srrag.core.figures import printed
from srrag.core.step import Step
from srrag.lab.experiment.in_sample import in_sample
from srrag.lab.experiment.judging import judge, judged_in, judges
from srrag.lab.experiment.terms import Terms
from srrag.lab.judges.gold import JudgeByGold
from srrag.lab.judges.nuggets import MeasureNuggets
from srrag.lab.measure.nli import (
    agreement,
    best_threshold,
    binary,
    nli_cases,
    read_nli,
    verdicts,
)
from srrag.llm.completion import Usage
from srrag.runner.progress import say
from srrag.runner.summary import calls_made

_GOLD, _NUGGETS = "gold", "nuggets"
"""The judge of `bench.judges` that is measured, and the step that reads its verdicts."""


def evaluate_nli(terms: Terms) -> dict[str, Any]:
    """Compare the verdicts of the judge of nuggets with physicians' votes.

    Pairs of questions that the judge was tuned on are kept apart unless in_sample=allow. Raises
    UsageError if no others are left.
    """
    with reading(terms.path):
        rows = read_nli(terms.path)
    steps = judges(terms.bench["judges"])
    measured, usage = _measured(terms, terms.path, rows, steps)
    summary = {"judge": terms.judge, **measured, **calls_made({"judge": usage}, len(rows))}
    summary["ok"] = summary["failed"] < summary["pairs"]
    say(readable(summary))
    return summary


def unfit_by_votes(terms: Terms, steps: Mapping[str, Step]) -> dict[str, str]:
    """Name the metrics of the judge of nuggets, with the reason, if it is unfit as a judge.

    The judge is unfit if its F1 on the physicians' votes of `bench.votes` does not beat that of a
    cosine, as `bench=nli` measures it: on whole answers, and on questions that it was not tuned on.
    Without such a file or judge it returns nothing.
    """
    file = terms.bench.get("votes")
    step = steps.get(_GOLD)
    if not file or not isinstance(step, JudgeByGold) or not (path := Path(str(file))).exists():
        return {}
    with reading(path):
        rows = read_nli(path)
    judges_ = {_GOLD: replace(step, words=None), _NUGGETS: MeasureNuggets()}
    found, _ = _measured(terms, path, rows, judges_)
    if found["fit"]:
        return {}
    own, other = (each["metrics"]["F1"]["value"] for each in (found, found["cosine_best"]))
    reason = f"unfit here: F1 {own:.3f} on physicians' votes, a cosine's {other:.3f}"
    return {metric.name: reason for metric in MeasureNuggets.metrics}


def _measured(
    terms: Terms, path: Path, rows: list[dict[str, Any]], steps: Mapping[str, Step]
) -> tuple[dict[str, Any], Usage]:
    """Measure the judge of nuggets, a cosine and the constant on physicians' votes."""
    store = judged_in(terms.root, terms.out)
    judged, usage = judge(store, terms.running, nli_cases(rows), steps)
    given, resampling = verdicts(rows, judged[_NUGGETS]), terms.resampling
    asked = [{"query_id": row["id"], "text": row["question"]} for row in rows]
    seen = in_sample(steps.values(), asked, terms.in_sample)
    apart = [row for row in rows if row["id"] in seen.apart]
    rows = [row for row in rows if row["id"] not in seen.apart]
    if not rows:
        raise UsageError(f"{path}: every pair is {seen.reason}")
    found = agreement(rows, given, **resampling)
    gold = np.array([row["label"] == "Entailment" for row in rows])
    cosines = _cosines(terms, rows)
    threshold = best_threshold(gold, cosines)
    questions = [str(row["question"]) for row in rows]
    best = binary(gold, cosines >= threshold, questions, **resampling)
    constant = binary(gold, np.ones_like(gold), questions, **resampling)
    measured: dict[str, Any] = {
        **found,
        "in_sample": agreement(apart, given, **resampling) if apart else None,
        "cosine_best": {"threshold": round(threshold, 4), "metrics": best},
        "always_entailed": {"metrics": constant},
    }
    measured["fit"] = found["metrics"]["F1"]["value"] > max(
        each["F1"]["value"] for each in (best, constant)
    )
    return measured, usage


def readable(summary: Mapping[str, Any]) -> str:
    """Format the figures for a terminal."""
    lines = [f"{summary['pairs']} pairs, {summary['failed']} without a verdict"]
    if not summary["ok"]:
        lines += ["NO RESULT: no answer of the judge could be used"]
    sides = {summary["judge"]: summary, "cosine, its best threshold": summary["cosine_best"]}
    if summary["in_sample"]:
        sides[f"{summary['judge']}, in-sample"] = summary["in_sample"]
    sides["always entailed"] = summary["always_entailed"]
    for title, each in sides.items():
        figures = "  ".join(
            f"{name} {each['metrics'][name]['value']:.3f}"
            for name in ("accuracy", "precision", "recall", "F1")
        )
        lines.append(f"  {title:<38}{figures}")
    for name in ("alpha", "alpha_physicians"):
        lines.append(f"  {name:<38}{printed(summary['metrics'][name], 3)}")
    others = "the cosine and the constant"
    unfit = f"is unfit as a judge: its F1 does not beat {others}"
    verdict = f"beats {others}" if summary["fit"] else unfit
    return "\n".join([*lines, f"  {summary['judge']} {verdict}", ""])


def _cosines(terms: Terms, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Compute the cosine of each nugget with its answer, the baseline of the judge."""
    from srrag.model.embed import load

    at = terms.running.place
    model = load(terms.make("embedder"), at.device, at.threads)
    vectors = model.encode([text for row in rows for text in (row["answer"], row["nugget"])])
    return (vectors[::2] * vectors[1::2]).sum(axis=1)
