"""Compare what the parts of a system were fitted on with the questions of a benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from srrag.core.errors import UsageError
from srrag.core.figures import Figure
from srrag.core.provenance import Fitted, overlap
from srrag.core.step import Step, instances, within
from srrag.lab.measure.scores import Scores, figure, only
from srrag.lab.report.row import SeenQuestions
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
