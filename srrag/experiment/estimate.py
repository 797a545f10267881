"""An upper bound on the calls of answering, evaluating or sweeping; it calls no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from srrag.errors import UsageError
from srrag.evaluate.judgements import CASES
from srrag.experiment.controls import wanted
from srrag.experiment.scoring import Answers, Bench, read_bench
from srrag.experiment.systems import System
from srrag.experiment.terms import Terms
from srrag.rows import Row
from srrag.runner.at_most import at_most, readable
from srrag.runner.pipeline_run import PipelineRun
from srrag.runner.progress import say
from srrag.schema import NO_CHOICE, empty_value
from srrag.step import Place

BENCHES = ("beir", "gold", "textbook", "near_topic", "answers")
"""Kinds of benchmarks that run a pipeline."""


def estimate(
    runs: Mapping[str, PipelineRun],
    questions: pa.Table,
    at: Place,
    bench: Bench | None = None,
) -> dict[str, Any]:
    """Return and print the most that pipelines and the judges of a benchmark ask.

    Raises UsageError where a prompt has no bound, or no model is asked.
    """
    rows = [
        {name: value for name, value in row.items() if name != "reject"}
        for row in questions.to_pylist()
    ]
    try:
        found = at_most(
            rows,
            {name: (run.pipeline.steps, run.place(at)) for name, run in runs.items()},
            _judged(runs, rows, bench) if isinstance(bench, Answers) else {},
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    say(readable(found))
    return found


def check_estimated(bench: Mapping[str, Any]) -> None:
    """Raise UsageError for an evaluation that runs no pipeline, or does not run it itself."""
    if bench["kind"] not in BENCHES:
        kinds = ", ".join(BENCHES)
        raise UsageError(f"estimate: bench.kind={bench['kind']} asks no pipeline; {kinds} do")
    if bench.get("answers") or bench.get("baseline_answers"):
        raise UsageError("estimate: bench.answers are there already; leave them out")


def estimate_evaluation(terms: Terms, compared: Sequence[System]) -> dict[str, Any]:
    """Return the most that a pipeline, its baseline and the judges ask."""
    check_estimated(terms.bench)
    bench, running = read_bench(terms), terms.running
    runs = {
        each.name: running.bound(terms.root, terms.build, bench.asked(each.make()), evaluating=True)
        for each in compared
    }
    return estimate(runs, bench.questions, running.place, bench)


def _judged(runs: Mapping[str, PipelineRun], rows: Sequence[Row], bench: Answers) -> dict[str, Any]:
    """The judges of each pipeline with the cases as the gold has them."""
    if bench.terms.controls == "paid":
        raise UsageError("estimate: it does not know controls=paid; take controls=false")
    assert not wanted(bench.terms)
    blank = {item.name: empty_value(item.type) for item in CASES if item.name != "reject"}
    gold = {row["query_id"]: _gold(row) for row in bench.rows}
    cases = [blank | row | gold[row["query_id"]] | {"choice": NO_CHOICE} for row in rows]
    steps = tuple(bench.steps.values())
    return {
        name: (steps, [case | {"chooses": "choice" in run.pipeline.writes.names} for case in cases])
        for name, run in runs.items()
    }


def _gold(row: Row) -> Row:
    """The gold of a question, every nugget of it vital."""
    nuggets = [{"text": each["text"], "importance": "vital"} for each in row["nuggets"]]
    kept = {name: row[name] for name in ("text", "ideal_answer", "picot", "options")}
    return kept | {"nuggets": nuggets}
