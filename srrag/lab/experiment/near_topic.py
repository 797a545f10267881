"""Near-topic questions as a benchmark: does a pipeline answer what the corpus cannot?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from srrag.core.errors import UsageError, reading
from srrag.core.rows import Row
from srrag.core.step import Place
from srrag.lab.experiment.bench import Bench, Outcome, failed
from srrag.lab.experiment.in_sample import InSample, split
from srrag.lab.measure.near_topic import (
    NearTopic,
    by_id,
    near_topic_scores,
    read_near_topic,
    risk_coverage,
)
from srrag.lab.measure.scores import Scores
from srrag.retrieve.questions import question_table

_ABSTAINS: Row = {
    "reject": None, "state": "not", "sentences": [], "answer": "", "answer_note": "", "missing": "",
}  # fmt: skip
CONTROLS: Mapping[str, Row] = {
    "control: always abstain": _ABSTAINS,
    "control: always answer": {**_ABSTAINS, "state": "answered", "sentences": [{}]},
}
"""One never answers, the other always: neither figure means anything without the other."""


@dataclass(frozen=True)
class NearTopicBench(Bench):
    """Questions that a corpus answers, and near variants that it cannot answer."""

    asked_: Sequence[NearTopic]
    side: str | None = None

    @cached_property
    def questions(self) -> pa.Table:
        """All questions."""
        return question_table({"query_id": q.query_id, "text": q.text} for q in self.asked_)

    @property
    def gold(self) -> list[Row]:
        """The questions, each with the words that the corpus lacks."""
        return [
            {"query_id": each.query_id, "text": each.text, "ideal_answer": _told(each), "gold": []}
            for each in self.asked_
        ]

    @property
    def facts(self) -> Row:
        """How many questions the corpus answers, and how many not."""
        answerable = sum(each.answerable for each in self.asked_)
        others = len(self.asked_) - answerable
        return {"answerable": answerable, "unanswerable": others, "side": self.side}

    @cached_property
    def groups(self) -> Mapping[str, str]:
        """The element that was replaced in each question that the corpus cannot answer."""
        return {each.query_id: each.swapped for each in self.asked_ if not each.answerable}

    def tried(
        self, outcomes: Mapping[str, Outcome], first: str, seen: InSample
    ) -> tuple[dict[str, list[Scores]], dict[str, str]]:
        """Score systems that always and never answer; each is best on half of the metrics."""
        rows = {
            name: {each.query_id: row for each in self.asked_} for name, row in CONTROLS.items()
        }
        return {name: self._scores(each, seen)[0] for name, each in rows.items()}, {}

    def score(self, table: pa.Table, at: Place, seen: InSample) -> Outcome:
        """Score whether a pipeline answers, with in-sample questions apart."""
        rows = by_id(table.to_pylist())
        kept, apart = self._scores(rows, seen)
        counted = [each for each in self.asked_ if each.query_id not in seen.apart]
        facts = {"risk_coverage": risk_coverage(counted, rows)}
        return Outcome(kept, missing=failed(table), apart=apart, facts=facts)

    def _scores(
        self, rows: Mapping[str, Mapping[str, Any]], seen: InSample
    ) -> tuple[list[Scores], list[Scores]]:
        return split(near_topic_scores(self.asked_, rows), seen)


def _told(question: NearTopic) -> str:
    return "" if question.answerable else f"The corpus has nothing on: {question.absent}"


def read_bench_near_topic(bench: Mapping[str, Any], path: Path, root: str | None) -> NearTopicBench:
    """Read the questions; raises UsageError without a root."""
    if root is None:
        raise UsageError("root= is missing: the build of the corpus that is asked")
    answerable = Path(bench["answerable"]) if bench["answerable"] else None
    with reading(answerable or path), reading(path):
        return NearTopicBench(read_near_topic(path, answerable, bench["side"]), bench["side"])
