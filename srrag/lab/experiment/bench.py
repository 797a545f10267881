"""What differs between benchmarks: the questions, what is run on them, how a system is scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from srrag.answer.select.evidence import SelectEvidence
from srrag.core.pipeline import Pipeline
from srrag.core.rows import Row
from srrag.core.step import Place, Step
from srrag.lab.experiment.in_sample import InSample, split
from srrag.lab.measure.scores import Scores
from srrag.llm.completion import Usage

SHOWN_WINDOWS = 10
"""Windows of a ranking that are kept with their texts."""


@dataclass(frozen=True)
class Outcome:
    """What a benchmark made of a system: its scores, the judgements, and the judges' usage."""

    scores: Sequence[Scores]
    judgements: pa.Table | None = None
    missing: Mapping[str, int] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    broken: Sequence[str] = ()
    """Judges that failed wherever they were asked."""
    apart: Sequence[Scores] = ()
    """Scores of questions that a learned part saw, and that do not count in `scores`."""
    cases: pa.Table | None = None
    """The CASES that were judged, of which controls are made."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else a summary states of the system."""


class Bench(ABC):
    """Questions, the part of a pipeline to run on them, and its scoring."""

    @property
    def judge(self) -> str:
        """The name of the judge, "" if the scoring needs none."""
        return ""

    @property
    def learned(self) -> Sequence[Step]:
        """The judges, which may have been fitted on questions of the benchmark."""
        return ()

    @property
    def groups(self) -> Mapping[str, str]:
        """The group of each question, if figures of groups are wanted."""
        return {}

    @property
    @abstractmethod
    def questions(self) -> pa.Table:
        """The questions, as pipelines read them."""

    @property
    @abstractmethod
    def gold(self) -> Sequence[Row]:
        """The gold of each question with its strata."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What a summary states of the benchmark itself."""
        return {}

    def asked(self, pipeline: Pipeline) -> Pipeline:
        """Return the part of a pipeline to run; ValueError if it cannot be scored."""
        if "answer" not in pipeline.writes.names:
            raise ValueError("pipeline: none of its steps writes an answer")
        return pipeline

    @abstractmethod
    def score(self, table: pa.Table, at: Place, seen: InSample) -> Outcome:
        """Score the output of a pipeline, with in-sample questions apart."""

    def tried(
        self, outcomes: Mapping[str, Outcome], first: str, seen: InSample
    ) -> tuple[dict[str, list[Scores]], dict[str, str]]:
        """Return the scores of control systems by name, and the metrics that are unfit by them.

        Of systems with as much evidence, controls are made of that of `first`.
        """
        return {}, {}

    def kept(self, table: pa.Table, at: Place) -> pa.Table:
        """Return the part of the output that the results keep."""
        return table


class RankedByGold(Bench):
    """A benchmark whose scores need a ranking and gold alone."""

    @abstractmethod
    def scores(self, table: pa.Table, at: Place) -> list[Scores]:
        """Score a ranking."""

    def asked(self, pipeline: Pipeline) -> Pipeline:
        """Return the ranking of a pipeline; ValueError if it ranks nothing."""
        if not pipeline.rank:
            raise ValueError("pipeline: it ranks nothing that could be judged")
        return pipeline.ranking()

    def score(self, table: pa.Table, at: Place, seen: InSample) -> Outcome:
        """Score a ranking, with in-sample questions apart."""
        kept, apart = split(self.scores(table, at), seen)
        return Outcome(kept, missing=failed(table), apart=apart)

    def kept(self, table: pa.Table, at: Place) -> pa.Table:
        """Add the texts of the first windows of a ranking as evidence."""
        show = SelectEvidence(k=SHOWN_WINDOWS, max_per_chunk=SHOWN_WINDOWS).open(at)
        return show(table.select(["query_id", "text", "trace", "hits", "reject"]))


def failed(table: pa.Table) -> dict[str, int]:
    """How many questions failed, as a reason why they are missing."""
    lost = len(table["reject"].drop_null())
    return {"failed": lost} if lost else {}
