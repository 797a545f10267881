"""Which of two systems' evidence is better, in recall and in precision (EbmKG, 5.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa

from srrag.algo.entailment import entails
from srrag.core.schema import EVIDENCE, NUGGETS, relation
from srrag.lab.judges.gold import reference
from srrag.lab.measure.judgements import Case, Judgement, Metric, lines
from srrag.lab.measure.judging_steps import Judge
from srrag.llm.completion import Answer, Completion, PromptFile, quoted
from srrag.llm.fields import Means, Text

RECALL = Metric("preference_recall", "evidence of two systems")
PRECISION = Metric("preference_precision", "evidence of two systems")
WON, TIE, LOST = 1.0, 0.5, 0.0
MOST = 64
"""Pieces of evidence of a system that a judge can be shown."""
Side = Literal["first", "second", "tie"]

PAIRED = relation(
    ("query_id", pa.string()),
    ("text", pa.string()),
    ("ideal_answer", pa.string()),
    ("nuggets", NUGGETS),
    ("evidence", EVIDENCE),
    ("other", EVIDENCE),
)
"""A row a question: the evidence of a system, and that of the other one."""


class PreferenceVerdict(Answer):
    """Which of two evidences is better."""

    example: ClassVar[dict[str, Any] | None] = {
        "reason": "Only the first gives the dose; both hold passages on children.",
        "recall": "first",
        "precision": "tie",
    }

    reason: Annotated[
        str, Text(30, "what each holds and lacks, in one or two short sentences", "it is plain")
    ]
    recall: Annotated[Side, Means("which holds more of what a full and right answer needs")]
    precision: Annotated[Side, Means("which holds less that such an answer has no use for")]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "judge_preference.md", PreferenceVerdict)


@dataclass(frozen=True, kw_only=True)
class JudgePreference(Judge):
    """Two calls a question: the first `depth` pieces of both systems, in either order.

    The value is 1 if the system wins in both orders, 0 if the other one does, else ½, a tie: the
    paper shows one order, but judges have a position bias. By rules recall is the share of the
    gold's nuggets that the evidence states, precision the share of pieces that state one; without
    nuggets all are ties.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "text", "ideal_answer", "nuggets", "evidence", "other",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (RECALL, PRECISION)
    schema: ClassVar[type[Answer]] = PreferenceVerdict
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    depth: int = 16

    def __post_init__(self) -> None:
        """Raise ValueError for a depth outside its range."""
        if not 1 <= self.depth <= MOST:
            raise ValueError(f"depth is {self.depth}: 1 to {MOST} work")

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """A prompt an order."""
        system = PROMPT.system()
        shared = {"question": quoted(case["text"]), "reference": quoted(reference(case))}
        return [
            (system, PROMPT.user(**shared, first=_shown(one), second=_shown(two)))
            for one, two in self._orders(case)
        ]

    def rule(self, case: Case, number: int) -> PreferenceVerdict:
        """Compare what both state of the nuggets."""
        sides = [_stated(case, pieces) for pieces in self._orders(case)[number]]
        (recall, precision), (other_recall, other_precision) = sides
        return PreferenceVerdict(
            reason=f"{recall:.2f} and {other_recall:.2f} of the nuggets, {precision:.2f} and "
            f"{other_precision:.2f} of the pieces",
            recall=_better(recall, other_recall),
            precision=_better(precision, other_precision),
        )

    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """A judgement of recall and one of precision."""
        fault = next((answer.fault for answer in answers if answer.fault), None)
        if fault is not None:
            yield from (metric.failed(case, "", fault) for metric in self.metrics)
            return
        shown, turned = (answer.value for answer in answers)
        reason = f"{shown.reason} / {turned.reason}"
        yield RECALL.judged(case, "", _both(shown.recall, turned.recall), reason)
        yield PRECISION.judged(case, "", _both(shown.precision, turned.precision), reason)

    def _orders(self, case: Case) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
        own, other = case["evidence"][: self.depth], case["other"][: self.depth]
        return [(own, other), (other, own)]


def _both(shown: Side, turned: Side) -> float:
    """The value of the verdicts in the order (own, other) and in the reverse order."""
    if (shown, turned) == ("first", "second"):
        return WON
    return LOST if (shown, turned) == ("second", "first") else TIE


def _shown(pieces: Sequence[dict[str, Any]]) -> str:
    return lines({"title": piece["title"], "text": piece["text"]} for piece in pieces) or "(none)"


def _stated(case: Case, pieces: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """The share of the nuggets that the pieces state, and of the pieces that state one."""
    found = [
        {n for n, nugget in enumerate(case["nuggets"])
         if entails(piece["text"], nugget["text"], case["text"]).verdict == "supported"}
        for piece in pieces
    ]  # fmt: skip
    recall = len(set().union(*found)) / len(case["nuggets"]) if case["nuggets"] else 0.0
    return recall, sum(map(bool, found)) / len(pieces) if pieces else 0.0


def _better(one: float, two: float) -> Side:
    return "tie" if one == two else "first" if one > two else "second"
