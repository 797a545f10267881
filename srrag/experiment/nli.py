"""`srrag evaluate bench=nli`: how well the judge of nuggets agrees with physicians."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from srrag.config import factory
from srrag.errors import reading
from srrag.evaluate.nli import (
    agreement,
    best_threshold,
    binary,
    held_out,
    nli_cases,
    read_nli,
    verdicts,
)
from srrag.experiment.judging import judge, judge_name, judges
from srrag.figures import printed
from srrag.runner.progress import say
from srrag.runner.summary import calls_made


def evaluate_nli(config: dict[str, Any], path: Path) -> dict[str, Any]:
    """Compare the verdicts of the judge of nuggets with physicians' votes."""
    started = time.perf_counter()
    with reading(path):
        rows = read_nli(path)
    steps = judges(config["bench"]["judges"])
    judged, usage = judge(config, nli_cases(rows), steps)
    given = verdicts(judged["nuggets"])
    resampling = {"resamples": config["resamples"], "seed": config["seed"]}
    apart = [row for row in rows if held_out(row["question"])]
    found = agreement(rows, given, **resampling)
    gold = np.array([row["label"] == "Entailment" for row in rows])
    cosines = _cosines(config, rows)
    threshold = best_threshold(gold, cosines)
    questions = [str(row["question"]) for row in rows]
    best = binary(gold, cosines >= threshold, questions, **resampling)
    constant = binary(gold, np.ones_like(gold), questions, **resampling)
    summary: dict[str, Any] = {
        "judge": judge_name(config),
        **found,
        "held_out": agreement(apart, given, **resampling) if apart else None,
        "cosine_best": {"threshold": round(threshold, 4), "metrics": best},
        "always_entailed": {"metrics": constant},
    }
    summary["fit"] = found["metrics"]["F1"]["value"] > max(
        each["F1"]["value"] for each in (best, constant)
    )
    summary |= calls_made({"judge": usage}, len(rows))
    summary["seconds"] = round(time.perf_counter() - started, 3)
    summary["ok"] = found["failed"] < len(rows)
    say(readable(summary))
    return summary


def readable(summary: Mapping[str, Any]) -> str:
    """Format the figures for a terminal."""
    lines = [f"{summary['pairs']} pairs, {summary['failed']} without a verdict"]
    if not summary["ok"]:
        lines += ["NO RESULT: no answer of the judge could be used"]
    sides = {summary["judge"]: summary, "cosine, its best threshold": summary["cosine_best"]}
    if summary["held_out"]:
        sides[f"{summary['judge']}, held out"] = summary["held_out"]
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


def _cosines(config: dict[str, Any], rows: Sequence[Mapping[str, Any]]) -> Any:
    """Compute the cosine of each nugget with its answer, the baseline of the judge."""
    from srrag.model.embed import load

    at = factory.place(config)
    model = load(factory.make(config["embedder"], "embedder"), at.device, at.threads)
    vectors = model.encode([text for row in rows for text in (row["answer"], row["nugget"])])
    return (vectors[::2] * vectors[1::2]).sum(axis=1)
