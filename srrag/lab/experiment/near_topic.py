"""`srrag evaluate bench=near_topic`: does a pipeline answer what the corpus cannot?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.core.errors import UsageError, reading
from srrag.core.pipeline import Pipeline
from srrag.core.rows import Row
from srrag.core.step import Place, Step
from srrag.lab.experiment.in_sample import InSample, split
from srrag.lab.experiment.outcome import Outcome
from srrag.lab.experiment.record import Evaluated, record, set_apart
from srrag.lab.experiment.systems import System
from srrag.lab.experiment.terms import Terms
from srrag.lab.measure.near_topic import (
    NearTopic,
    by_id,
    by_swap,
    has_answered,
    near_topic_scores,
    read_near_topic,
    risk_coverage,
)
from srrag.lab.measure.scores import Scores, compare, figure
from srrag.retrieve.questions import question_table
from srrag.runner.progress import say

_ABSTAINS: Row = {
    "reject": None, "state": "not", "sentences": [], "answer": "", "answer_note": "",
    "missing": "", "notice": "",
}  # fmt: skip
CONTROLS: Mapping[str, Row] = {
    "control: always abstain": _ABSTAINS,
    "control: always answer": {**_ABSTAINS, "state": "answered", "sentences": [{}]},
}
"""One never answers, the other always: neither figure means anything without the other."""


@dataclass(frozen=True)
class NearTopicBench:
    """Questions that a corpus answers, and near variants that it cannot answer, for sweeps."""

    asked_: Sequence[NearTopic]
    judge: str = ""

    @cached_property
    def questions(self) -> pa.Table:
        """All questions."""
        return _question_table(self.asked_)

    @property
    def gold(self) -> list[Row]:
        """The questions, each with the words that the corpus lacks."""
        return [
            {"query_id": each.query_id, "text": each.text, "ideal_answer": _told(each), "gold": []}
            for each in self.asked_
        ]

    @property
    def learned(self) -> Sequence[Step]:
        """No judge is asked."""
        return ()

    def asked(self, pipeline: Pipeline) -> Pipeline:
        """Return the whole pipeline; ValueError if it cannot abstain."""
        if "state" not in pipeline.writes.names:
            raise ValueError("pipeline: none of its steps writes an answer")
        return pipeline

    def tried(
        self, outcomes: Mapping[str, Outcome], baseline: str, seen: InSample
    ) -> tuple[dict[str, list[Scores]], dict[str, str]]:
        """Score systems that always and never answer; each is best on half of the metrics."""
        rows = {
            name: {each.query_id: row for each in self.asked_} for name, row in CONTROLS.items()
        }
        return {name: self._scores(each, seen)[0] for name, each in rows.items()}, {}

    def score(self, table: pa.Table, at: Place, seen: InSample) -> Outcome:
        """Score whether a pipeline answers, with in-sample questions apart."""
        kept, apart = self._scores(by_id(table.to_pylist()), seen)
        lost = len(table["reject"].drop_null())
        return Outcome(kept, missing={"failed": lost} if lost else {}, apart=apart)

    def _scores(
        self, rows: Mapping[str, Mapping[str, Any]], seen: InSample
    ) -> tuple[list[Scores], list[Scores]]:
        return split(near_topic_scores(self.asked_, rows), seen)

    def kept(self, table: pa.Table, at: Place) -> pa.Table:
        """Keep all; vectors are left out when it is written."""
        return table


def _told(question: NearTopic) -> str:
    return "" if question.answerable else f"The corpus has nothing on: {question.absent}"


def _question_table(questions: Sequence[NearTopic]) -> pa.Table:
    return question_table({"query_id": q.query_id, "text": q.text} for q in questions)


def read_bench_near_topic(bench: Mapping[str, Any], path: Path, root: str | None) -> NearTopicBench:
    """Read the questions; raises UsageError without a root."""
    if root is None:
        raise UsageError("root= is missing: the build of the corpus that is asked")
    answerable = Path(bench["answerable"]) if bench["answerable"] else None
    with reading(answerable or path), reading(path):
        return NearTopicBench(read_near_topic(path, answerable, bench["side"]))


def evaluate_near_topic(terms: Terms, compared: Sequence[System]) -> dict[str, Any]:
    """Run a pipeline, and the baseline if any; return figures by the element replaced."""
    started = time.perf_counter()
    path, resampling = terms.path, terms.resampling
    questions = list(read_bench_near_topic(terms.bench, path, terms.root).asked_)
    systems = [_ask(terms, each, questions) for each in compared]
    asked = [{"query_id": q.query_id, "text": q.text} for q in questions]
    systems, seen = set_apart(systems, asked, terms.in_sample)
    questions = [each for each in questions if each.query_id not in seen.apart]
    if not questions:
        raise UsageError(f"bench.path={path}: every question is one {seen.reason}")
    counted = {
        "system": systems[0].name,
        "answerable": sum(each.answerable for each in questions),
        "unanswerable": sum(not each.answerable for each in questions),
        "side": terms.bench["side"],
        "in_sample": seen.stated(systems[0].apart, **resampling).model_dump(),
    }
    summary: dict[str, Any] = counted
    for system, prefix in zip(systems, ("", "baseline_"), strict=False):
        rows = by_id(system.table.to_pylist())
        summary |= {
            f"{prefix}failed": sum(row["reject"] is not None for row in rows.values()),
            f"{prefix}metrics": {s.metric.name: figure(s, **resampling) for s in system.scores},
            f"{prefix}swapped": {
                name: {"metrics": each}
                for name, each in by_swap(questions, rows, **resampling).items()
            },
            f"{prefix}risk_coverage": risk_coverage(questions, rows),
        }
    if len(systems) > 1:
        summary["baseline"] = systems[1].name
        summary["difference"] = compare(systems[0].scores, systems[1].scores, **resampling)
    if terms.out:
        difference = summary.get("difference")
        record(terms.out, terms.name, "", asked, systems, difference, **resampling)
    summary["seconds"] = round(time.perf_counter() - started, 3)
    say("\n".join([*seen.said(), readable(summary)]))
    return summary


def _ask(terms: Terms, system: System, questions: list[NearTopic]) -> Evaluated:
    """Run a pipeline on all questions."""
    bound = terms.running.bound(terms.root, terms.build, system.answering())
    asked = _question_table(questions)
    began = time.perf_counter()
    table = bound.run(asked, terms.running.place)
    seconds, rows = time.perf_counter() - began, by_id(table.to_pylist())
    scores = near_topic_scores(questions, rows)
    abstained = sum(not has_answered(row) for row in rows.values() if row["reject"] is None)
    found = table, scores, seconds, bound, bound.usage(asked)
    return Evaluated(system.name, system.overrides, *found, abstained=abstained)


def readable(summary: Mapping[str, Any]) -> str:
    """Format the figures for a terminal."""
    counted = (
        f"{summary['answerable']} answerable questions, {summary['unanswerable']} that are not"
    )
    lines = [counted]
    for prefix in ("", "baseline_"):
        if f"{prefix}metrics" not in summary:
            continue
        lines += ["", summary["baseline" if prefix else "system"]]
        lines += _lines(summary[f"{prefix}metrics"])
        for swapped, figures in summary[f"{prefix}swapped"].items():
            lines += [f"  {swapped}", *_lines(figures["metrics"])]
        curve = summary[f"{prefix}risk_coverage"]
        if curve["points"]:
            lines.append(f"  confidence, AUROC {curve['auroc']:.3f}")
        lines += [
            f"    of the answerable {point['coverage']:.0%}: "
            f"of the others {point['unanswerable_answered']:.1%}, risk {point['risk']:.1%}"
            for point in curve["points"]
        ]
    if "difference" in summary:
        lines += ["", f"{summary['system']} - {summary['baseline']}"]
        lines += _lines(summary["difference"])
    return "\n".join(lines) + "\n"


def _lines(figures: Mapping[str, Any]) -> Iterator[str]:
    for name, each in figures.items():
        if each["value"] is None:
            yield f"    {name:<24}      –   {each['reason']}"
        else:
            interval = f"[{each['low']:.4f}, {each['high']:.4f}]"
            yield f"    {name:<24}{each['value']:7.4f}   {interval}"
