"""Answer accuracy: two judges on NVIDIA's scale, in repeated trials (RASRAG, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from srrag.algo.entailment import THRESHOLD, entails, sentences
from srrag.lab.measure.judgements import GRADED, Case, Judgement, Metric
from srrag.lab.measure.judging_steps import Judge
from srrag.llm.completion import Answer, Completion, PromptFile, quoted
from srrag.llm.fields import Means, Text

ACCURACY = Metric("answer_accuracy", "an ideal answer in the gold", worth=GRADED)
"""Full, partial and none are 4, 2 and 0 of 4 points; who contradicts has none."""


class AccuracyRating(Answer):
    """How far two texts say the same."""

    example: ClassVar[dict[str, Any] | None] = {
        "reason": "Both have fewer attacks, one without the dose.",
        "verdict": "partial",
    }

    reason: Annotated[
        str, Text(30, "where they agree and differ, in one short sentence", "it is plain")
    ]
    verdict: Annotated[
        Literal["full", "partial", "none", "contradicted"], Means("how far they agree, as above")
    ]


BY_REFERENCE, BY_ANSWER = (
    PromptFile(Path(__file__).parent / "prompts" / name, AccuracyRating)
    for name in ("rate_accuracy.md", "rate_agreement.md")
)


@dataclass(frozen=True, kw_only=True)
class JudgeAccuracy(Judge):
    """Two calls a trial: one measures the answer by the reference, the other the reverse.

    The two are worded differently, and their mean is the value of the trial (RAGAS, AnswerAccuracy,
    whose ratings come without a reason). By rules one asks how many sentences of the reference the
    answer states, the other how many of the answer the reference does; all trials are the same.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "text", "answer", "missing", "ideal_answer")
    metrics: ClassVar[tuple[Metric, ...]] = (ACCURACY,)
    schema: ClassVar[type[Answer]] = AccuracyRating
    prompt_files: ClassVar[tuple[Path, ...]] = (BY_REFERENCE.path, BY_ANSWER.path)

    trials: int = 1
    temperature: float = 0.1

    def __post_init__(self) -> None:
        """Raise ValueError for trials that say nothing."""
        if not 1 <= self.trials <= 20:
            raise ValueError(f"trials is {self.trials}: 1 to 20 work")

    @property
    def sampling(self) -> tuple[int, float]:
        """Each prompt once a trial."""
        return self.trials, self.temperature

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """The prompts of both judges."""
        if case["missing"] or not case["ideal_answer"]:
            return []
        texts = {
            "question": quoted(case["text"]),
            "answer": quoted(case["answer"]),
            "reference": quoted(case["ideal_answer"]),
        }
        return [(prompt.system(), prompt.user(**texts)) for prompt in (BY_REFERENCE, BY_ANSWER)]

    def rule(self, case: Case, number: int) -> AccuracyRating:
        """Look for the words of each sentence of one text in the other."""
        pair = (case["answer"], case["ideal_answer"])
        text, claims = pair if number == 0 else pair[::-1]
        stated = [
            entails(text, claim, case["text"], THRESHOLD).verdict == "supported"
            for claim in sentences(claims)
        ]
        of = "the reference" if number == 0 else "the answer"
        return AccuracyRating(
            reason=f"{sum(stated)} of {len(stated)} sentences of {of} are in the other",
            verdict="none" if not any(stated) else "full" if all(stated) else "partial",
        )

    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """A judgement a trial."""
        for trial in range(self.trials) if case["ideal_answer"] else ():
            item = f"trial {trial + 1}"
            if case["missing"]:
                yield ACCURACY.unanswered(case, item)
                continue
            pair = answers[trial], answers[self.trials + trial]
            if fault := pair[0].fault or pair[1].fault:
                yield ACCURACY.failed(case, item, fault)
                continue
            value = sum(getattr(ACCURACY.worth, each.value.verdict) for each in pair) / 2
            yield ACCURACY.judged(case, item, value, " / ".join(e.value.reason for e in pair))
