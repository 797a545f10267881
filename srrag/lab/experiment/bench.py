"""What differs between benchmarks: the questions, what runs on them, how a system is scored.

Questions that a part of a system was fitted on are told apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from srrag.answer.select.evidence import SelectEvidence
from srrag.core.errors import UsageError
from srrag.core.figures import Figure
from srrag.core.pipeline import Pipeline
from srrag.core.provenance import Fitted, overlap
from srrag.core.rows import Row
from srrag.core.step import Place, Step, instances, within
from srrag.lab.measure.scores import Scores, figure, only
from srrag.lab.report.row import SeenQuestions
from srrag.llm.completion import Usage
from srrag.model.encoder import Encoder

MODES = ("apart", "allow")


@dataclass(frozen=True)
class InSample:
    """The questions (ids) that each fitted part has seen, and the parts with unknown training data.

    `allowed` in-sample questions count in the headline; otherwise they are reported apart.
    """

    asked: int = 0
    parts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    allowed: bool = False

    @property
    def questions(self) -> frozenset[str]:
        """The questions that some part has seen."""
        return frozenset().union(*self.parts.values())

    @property
    def apart(self) -> frozenset[str]:
        """The questions that do not count in the headline."""
        return frozenset() if self.allowed else self.questions

    @property
    def reason(self) -> str:
        """Why such a question does not count."""
        names = ", ".join(sorted(self.parts))
        return f"fitted on by {names} (in_sample=allow counts it)"

    def stated(self, found: Sequence[Scores], **resampling: Any) -> SeenQuestions:
        """State the overlap, with the figures of the questions that are kept apart."""
        return SeenQuestions(
            questions=len(self.questions),
            parts={name: len(seen) for name, seen in sorted(self.parts.items())},
            unknown=self.unknown,
            allowed=self.allowed,
            metrics={each.metric.name: Figure(**figure(each, **resampling)) for each in found},
        )

    def said(self) -> list[str]:
        """Format the overlap for a terminal, a line each."""
        lines = [f"not known what it was fitted on: {name}" for name in self.unknown]
        if not (seen := len(self.questions)):
            return lines
        parts = ", ".join(f"{name} {len(ids)}" for name, ids in sorted(self.parts.items()))
        what = "counted (in_sample=allow)" if self.allowed else "apart"
        return [f"{seen} of {self.asked} questions are in-sample, {what}: {parts}", *lines]


def in_sample(steps: Iterable[Step], questions: Sequence[Mapping[str, Any]], mode: str) -> InSample:
    """Find the questions (`query_id`, `text`) that a learned part of the steps was fitted on.

    Raises UsageError for a `mode` that is none of MODES.
    """
    if mode not in MODES:
        raise UsageError(f"in_sample={mode}: there are {', '.join(MODES)}")
    ids = [str(row["query_id"]) for row in questions]
    texts = [str(row["text"]) for row in questions]
    learned = _learned(steps)
    parts: dict[str, frozenset[str]] = {}
    for fitted in learned:
        seen = frozenset(ids[place] for place in overlap(fitted, texts).questions)
        if seen:
            parts[fitted.name] = parts.get(fitted.name, frozenset()) | seen
    unknown = sorted({fitted.name for fitted in learned if not fitted.known})
    return InSample(len(ids), parts, tuple(unknown), mode == "allow")


def split(found: Sequence[Scores], seen: InSample) -> tuple[list[Scores], list[Scores]]:
    """Split scores into those of the headline, and those of the questions that are kept apart."""
    kept = [only(each, set(each.questions) - seen.apart, seen.reason) for each in found]
    apart = [only(each, seen.apart) for each in found] if seen.apart else []
    return kept, [each for each in apart if each.questions]


def _learned(steps: Iterable[Step]) -> list[Fitted]:
    """What the steps state, and what the encoders within them were trained on."""
    listed = list(steps)
    encoders = dict.fromkeys(each for step in listed for each in instances(step, Encoder))
    found = [fitted for step in listed for each in within(step) for fitted in each.fitted()]
    return [*found, *(fitted for each in encoders for fitted in each.fitted())]


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
