"""What answering, evaluating or sweeping would cost, by a sample of questions; calls no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from srrag.core.errors import UsageError
from srrag.core.step import Place
from srrag.lab.experiment.answers import Answers
from srrag.lab.experiment.bench import Bench
from srrag.lab.experiment.judging import sources
from srrag.lab.measure.cases import make_cases
from srrag.llm.completion import Engine
from srrag.runner.engines import log_folder
from srrag.runner.estimate import (
    RULES_ASK_NOTHING,
    CountingClient,
    counting_clients,
    figures_of,
    readable,
)
from srrag.runner.part import live
from srrag.runner.pipeline_run import PipelineRun
from srrag.runner.progress import say

SAMPLE = 50
"""Questions that are rendered; of so many, the tokens of all are known to a few percent."""


def estimate(
    runs: Mapping[str, PipelineRun], questions: pa.Table, at: Place, bench: Bench | None = None
) -> dict[str, Any]:
    """Return and print what pipelines and the judges of a benchmark would ask.

    A sample of the questions is searched and every prompt rendered; where the log holds no answer,
    the rules' answer stands in, so that later steps have input. The figures of a sample are scaled
    to all questions. Raises UsageError if no model is asked.
    """
    judged = bench if isinstance(bench, Answers) else None
    if judged and judged.terms.controls == "paid":
        raise UsageError("estimate: it does not know controls=paid; take controls=false")
    total = questions.num_rows
    drawn = np.random.default_rng(0).permutation(total)[:SAMPLE]
    some = questions.take(pa.array(np.sort(drawn)))
    seen: set[bytes] = set()
    counted: dict[str, Mapping[Engine, CountingClient]] = {}
    try:
        for name, run in runs.items():
            steps = (run.pipeline, *(judged.steps.values() if judged else ()))
            if clients := counting_clients(steps, log_folder(at), seen):
                counted[name] = clients
                _render(run, replace(run.place(at), clients=clients), some, judged)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not counted:
        raise UsageError(RULES_ASK_NOTHING)
    found = figures_of(counted, some.num_rows, total / some.num_rows)
    rendered = found.pop("documents")
    found |= {"questions": total, "rendered": rendered, "not_counted": []}
    say(f"for {total:,} questions, {rendered:,} of them rendered\n{readable(found)}")
    return found


def _render(run: PipelineRun, at: Place, questions: pa.Table, bench: Answers | None) -> None:
    """Let a pipeline answer, and the judges read the answers."""
    answers = run.pipeline.open(at)(questions)
    if bench is None:
        return
    asked = set(questions["query_id"].to_pylist())
    gold = [row for row in bench.rows if row["query_id"] in asked]
    made = {"cases": make_cases(gold, answers).table}
    reads = sources(bench.steps)
    for name, step in bench.steps.items():
        made[name] = step.open(at)(live(made[reads[name]]))
