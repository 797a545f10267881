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
    metrics = agreement(rows, given, **resampling)
    gold = np.array([row["label"] == "Entailment" for row in rows])
    cosines = _cosines(config, rows)
    threshold = best_threshold(gold, cosines)
    summary: dict[str, Any] = {
        "judge": judge_name(config),
        **metrics,
        "held_out": agreement(apart, given, **resampling) if apart else None,
        "cosine_best": {"threshold": round(threshold, 4), **binary(gold, cosines >= threshold)},
        "always_entailed": binary(gold, np.ones_like(gold)),
    }
    summary["fit"] = metrics["F1"] > max(
        summary[name]["F1"] for name in ("cosine_best", "always_entailed")
    )
    summary |= calls_made({"judge": usage}, len(rows))
    summary["seconds"] = round(time.perf_counter() - started, 3)
    summary["ok"] = metrics["failed"] < len(rows)
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
    for name, each in sides.items():
        figures = "  ".join(f"{k} {each[k]:.3f}" for k in ("accuracy", "precision", "recall", "F1"))
        lines.append(f"  {name:<38}{figures}")
    for name in ("alpha", "alpha_physicians"):
        each = summary[name]
        said = each.get("reason") or f"{each['value']:.3f} [{each['low']:.3f}, {each['high']:.3f}]"
        lines.append(f"  {name:<38}{said}")
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
