"""Write one or two evaluated systems as results: `srrag evaluate out=…` for `srrag report`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.answer.select.evidence import SelectEvidence
from srrag.core.figures import BaselineDifference, Figure
from srrag.core.spec import spec
from srrag.core.step import Place
from srrag.lab.experiment.in_sample import InSample, in_sample, split, united
from srrag.lab.measure.scores import Scores, figure
from srrag.lab.report.provenance import models_of
from srrag.lab.report.results import (
    gold_table,
    scored,
    write_answers,
    write_judgements,
    write_results,
)
from srrag.lab.report.row import Failure, Row
from srrag.llm.completion import Usage
from srrag.runner.build import versions
from srrag.runner.pipeline_run import PipelineRun

SHOWN_WINDOWS = 10
"""Windows of a ranking that are kept with their texts."""


@dataclass(frozen=True)
class Evaluated:
    """An evaluated system: the overrides that repeat it, its output for the questions, its scores.

    `run` is None for stored answers, `abstained` is None for a ranking, `missing` counts failed
    answers by reason, `broken_judges` are the judges that failed on every case.
    """

    name: str
    overrides: Sequence[str]
    table: pa.Table
    scores: Sequence[Scores]
    seconds: float
    run: PipelineRun | None = None
    usage: Usage = field(default_factory=Usage)
    judgements: pa.Table | None = None
    abstained: int | None = None
    missing: Mapping[str, int] = field(default_factory=dict)
    broken_judges: Sequence[str] = ()
    seen: InSample = field(default_factory=InSample)
    """What its parts were fitted on; `scores` are without the questions that are kept apart."""
    apart: Sequence[Scores] = ()
    """Scores of the questions that are kept apart."""


def record(
    out: Path,
    bench: str,
    judge: str,
    gold: Iterable[Mapping[str, Any]],
    systems: Sequence[Evaluated],
    difference: Mapping[str, Mapping[str, Any]] | None = None,
    controls: Mapping[str, Sequence[Scores]] | None = None,
    told: Mapping[str, str] | None = None,
    *,
    resamples: int,
    seed: int,
) -> None:
    """Write the results; `difference` is the first system minus the second, the baseline.

    `controls` are the scores of control systems, `told` the metrics that are unfit by them.
    """
    controls, unfit = controls or {}, dict(told or {})
    questions = gold_table(bench, gold)
    baseline = systems[1].name if len(systems) > 1 else None
    resampling = {"resamples": resamples, "seed": seed}
    rows = []
    for number, system in enumerate(systems):
        compared = {name: BaselineDifference(**each) for name, each in (difference or {}).items()}
        against = {"baseline": baseline, "difference": compared} if number == 0 else {}
        row = _row(system, bench, judge, questions.num_rows, against, resampling)
        rows.append(row.model_copy(update={"unfit": unfit}))
        write_answers(out, system.name, system.table)
        if system.judgements is not None:
            write_judgements(out, system.name, system.judgements)
    names = questions["query_id"].to_pylist()
    scores = [
        table
        for system in systems
        for table in score_tables(system.name, system.scores, names, system.seen)
    ]
    rows += [control_row(rows[0], name, each, **resampling) for name, each in controls.items()]
    for name, each in controls.items():
        scores += score_tables(name, each, names, systems[0].seen)
    write_results(out, rows, scores, questions)


def control_row(
    beside: Row, name: str, scores: Sequence[Scores], *, resamples: int, seed: int
) -> Row:
    """Make the row of a control, with benchmark and judge of a system that it stands beside."""
    resampling = {"resamples": resamples, "seed": seed}
    return Row(
        name=name,
        bench=beside.bench,
        judge=beside.judge,
        questions=max((len(each.questions) for each in scores), default=0),
        metrics={each.metric.name: Figure(**figure(each, **resampling)) for each in scores},
        command=beside.command,
        control=True,
        unfit=beside.unfit,
        versions=beside.versions,
    )


def set_apart(
    systems: Sequence[Evaluated], questions: Sequence[Mapping[str, Any]], mode: str
) -> tuple[list[Evaluated], InSample]:
    """Keep apart the questions that a part of one of the systems was fitted on."""
    seen = united(
        [
            in_sample(each.run.pipeline.steps if each.run else (), questions, mode)
            for each in systems
        ]
    )
    found = [split(each.scores, seen) for each in systems]
    return [
        replace(each, scores=kept, apart=apart, seen=seen)
        for each, (kept, apart) in zip(systems, found, strict=True)
    ], seen


def bench_group(overrides: Sequence[str], kind: str) -> str:
    """The benchmark as the last `bench=` of a command names it, else its kind."""
    named = [item.partition("=")[2] for item in overrides if item.startswith("bench=")]
    return named[-1] if named else kind


def score_tables(
    name: str, scores: Sequence[Scores], questions: Sequence[str], seen: InSample
) -> list[pa.Table]:
    """Return QUESTIONS tables of a system, one a metric; left-out questions have the reason."""
    tables = []
    for each in scores:
        counted = set(each.questions)
        reason = f"it lacks {each.metric.needs}"
        left_out = {
            query: seen.reason if query in seen.apart else reason
            for query in questions
            if query not in counted
        }
        values = each.parts, each.wholes
        tables.append(scored(name, each.metric.name, each.questions, *values, left_out))
    return tables


def with_windows(table: pa.Table, at: Place) -> pa.Table:
    """Add the texts of the first windows of a ranking as evidence."""
    show = SelectEvidence(k=SHOWN_WINDOWS, max_per_chunk=SHOWN_WINDOWS).open(at)
    return show(table.select(["query_id", "text", "trace", "hits", "reject"]))


def _row(
    system: Evaluated,
    bench: str,
    judge: str,
    questions: int,
    against: Mapping[str, Any],
    resampling: Mapping[str, int],
) -> Row:
    rejected = system.table.filter(system.table["reject"].is_valid())
    lost = rejected.select(["query_id", "reject"]).to_pylist()
    return Row(
        name=system.name,
        bench=bench,
        judge=judge,
        metrics={each.metric.name: Figure(**figure(each, **resampling)) for each in system.scores},
        questions=questions,
        in_sample=system.seen.stated(system.apart, **resampling),
        failed=sum(system.missing.values()) if system.missing else len(lost),
        abstained=system.abstained,
        missing=dict(system.missing),
        broken_judges=tuple(system.broken_judges),
        failures=tuple(Failure(query_id=row["query_id"], **row["reject"]) for row in lost),
        tokens_in=system.usage.tokens_in,
        tokens_out=system.usage.tokens_out,
        calls=system.usage.calls + system.usage.cached,
        seconds=round(system.seconds, 3),
        command=shlex.join(["srrag", "evaluate", *system.overrides]),
        overrides=tuple(system.overrides),
        versions=versions(),
        **_origin(system.run),
        **against,
    )


def _origin(run: PipelineRun | None) -> dict[str, Any]:
    """Describe the pipeline and its inputs; empty for stored answers, whose origin is unknown."""
    if run is None:
        return {}
    pointer, plan = run.store.read_pointer(run.build)["stages"], run.alone.plan
    read = {name: pointer[name]["fingerprint"] for name in run.pipeline.needs() if name in pointer}
    return {
        "pipeline": spec(run.pipeline),
        "fingerprints": read | {name: plan.fingerprint(name) for name in plan.paths[0]},
        "models": models_of(run.pipeline),
    }
