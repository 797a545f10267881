"""What answering, evaluating or sweeping would cost, by a sample of questions; calls no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.core.errors import UsageError
from srrag.core.pipeline import Pipeline
from srrag.core.step import Function, Place
from srrag.engine.base import Model
from srrag.lab.experiment.answers import Answers
from srrag.lab.experiment.bench import Bench
from srrag.lab.experiment.judging import sources
from srrag.lab.measure.cases import make_cases
from srrag.llm.completion import Engine
from srrag.runner.engines import log_folder
from srrag.runner.estimate import RULES_ASK_NOTHING, CountingClient, counting_clients
from srrag.runner.part import live
from srrag.runner.pipeline_run import PipelineRun
from srrag.runner.progress import say

SAMPLE = 50
"""Questions that are rendered; of so many, the tokens of all are known to a few percent."""

COUNTS = ("calls", "tokens_in", "tokens_out", "usd")

Counts = npt.NDArray[np.float64]


def estimate(
    runs: Mapping[str, PipelineRun], questions: pa.Table, at: Place, bench: Bench | None = None
) -> dict[str, Any]:
    """Return and print what pipelines and the judges of a benchmark would ask.

    A sample of the questions is searched and every prompt rendered; where the log holds no answer,
    the rules' answer stands in, so that later steps have input. Each figure is the sum for all
    questions, with a 95 % interval for the sample. Raises UsageError if no model is asked.
    """
    if isinstance(bench, Answers) and bench.terms.controls == "paid":
        raise UsageError("estimate: it does not know controls=paid; take controls=false")
    total = questions.num_rows
    drawn = np.random.default_rng(0).permutation(total)[:SAMPLE]
    some = questions.take(pa.array(np.sort(drawn)))
    judged = bench if isinstance(bench, Answers) else None
    seen: set[bytes] = set()
    counted: dict[str, Counts] = {}
    models: dict[Model, None] = {}
    try:
        for name, run in runs.items():
            steps = (run.pipeline, *(judged.steps.values() if judged else ()))
            clients = counting_clients(steps, log_folder(at), seen, at.account.fresh)
            models |= dict.fromkeys(each.engine for each in clients.values())
            if clients:
                counted[name] = _counted(run.pipeline, run.place(at), clients, some, judged)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not counted:
        raise UsageError(RULES_ASK_NOTHING)
    known = all(model.priced for model in models)
    found = {
        "estimate": True,
        "questions": total,
        "rendered": some.num_rows,
        "engines": [model.name for model in models],
        **_sums(sum(counted.values(), np.zeros((some.num_rows, len(COUNTS)))), total, known),
        "pipelines": {name: _sums(each, total, known) for name, each in counted.items()},
    }
    say(readable(found))
    return found


def _counted(
    pipeline: Pipeline,
    at: Place,
    clients: Mapping[Engine, CountingClient],
    questions: pa.Table,
    bench: Answers | None,
) -> Counts:
    """Return the COUNTS of each question, which goes through the steps and the judges alone."""
    at = replace(at, clients=clients)
    answer = pipeline.open(at)
    judges = {name: step.open(at) for name, step in bench.steps.items()} if bench else {}
    counts = [np.zeros(len(COUNTS))]
    for number in range(questions.num_rows):
        answers = answer(questions.slice(number, 1))
        if bench:
            _judge(bench, answers, judges)
        found = [client.found for client in clients.values()]
        sums = [sum(getattr(each, name) or 0 for each in found) for name in COUNTS]
        counts.append(np.array(sums))
    return np.diff(np.array(counts), axis=0)


def _judge(bench: Answers, answers: pa.Table, judges: Mapping[str, Function]) -> None:
    """Let the judges read the answer to one question."""
    asked = answers["query_id"].to_pylist()
    gold = [row for row in bench.rows if row["query_id"] in asked]
    made = {"cases": make_cases(gold, answers).table}
    reads = sources(bench.steps)
    for name, judge in judges.items():
        made[name] = judge(live(made[reads[name]]))


def _sums(counts: Counts, total: int, priced: bool) -> dict[str, Any]:
    """Return each count for all questions: its value, and its 95 % interval for a sample."""
    rendered = len(counts)
    spread = counts.std(axis=0, ddof=1) if rendered > 1 else np.zeros(len(COUNTS))
    half = 1.96 * total * spread * np.sqrt((1 - rendered / total) / rendered)
    values = total * counts.mean(axis=0)
    known = counts.sum(axis=0)  # what the sample itself asks is certain
    figures: dict[str, Any] = {
        name: {
            "value": round(float(value), 4),
            "low": round(float(max(value - wide, least)), 4),
            "high": round(float(value + wide), 4),
        }
        for name, value, wide, least in zip(COUNTS, values, half, known, strict=True)
    }
    return figures if priced else figures | {"usd": None}


def readable(found: Mapping[str, Any]) -> str:
    """Format the estimate for a terminal: a line, and one a pipeline if there are several."""
    of = f"for {found['questions']:,} questions, {found['rendered']:,} of them rendered"
    lines = [f"{_said(found)} {of}"]
    rows = found["pipelines"]
    width = max(map(len, rows))
    if len(rows) > 1:
        lines += [f"  {name:<{width}}  {_said(row)}" for name, row in rows.items()]
    lines.append("answers as long as the rules'; later tries are not counted: budget bounds them")
    return "\n".join(lines)


def _said(row: Mapping[str, Any]) -> str:
    words = {"calls": "calls", "tokens_in": "tokens in", "tokens_out": "out"}
    shown = [f"{_interval(row[name], 0)} {word}" for name, word in words.items()]
    usd = row["usd"]
    return ", ".join([*shown, f"{_interval(usd, 2)} USD" if usd else "no price known"])


def _interval(figure: Mapping[str, float], decimals: int) -> str:
    value, low, high = (f"{figure[key]:,.{decimals}f}" for key in ("value", "low", "high"))
    return value if low == high else f"{value} [{low}, {high}]"
