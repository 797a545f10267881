"""Nugget coverage: does an answer state each fact of the gold (SR-RAG, section 2.4, Listing S3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from srrag.algo.entailment import THRESHOLD, entails
from srrag.lab.measure.judgements import (
    REASON,
    Case,
    Judge,
    Judgement,
    Metric,
    first_words,
    num_words,
)
from srrag.llm.completion import Answer, Completion, PromptFile
from srrag.llm.delimit import quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "judge_nugget.md")
Verdict = Literal["covered", "contradicted", "missing"]

COVERAGE = Metric("nugget_coverage", "nuggets in the gold")
KEY_POINTS = Metric("keypoint_coverage", "nuggets in the gold", pooled=True)
VITAL = Metric("nugget_coverage_vital", "vital nuggets in the gold")
DENSITY = Metric("nuggets_per_100_words", "nuggets in the gold, and an answer")
CONTRADICTED = Metric("nugget_contradiction", "nuggets in the gold, and an answer", "lower")

_OF_RULE: dict[str, Verdict] = {
    "supported": "covered",
    "contradicted": "contradicted",
    "neutral": "missing",
}


class NuggetVerdict(Answer):
    """What an answer says about one nugget."""

    reason: Annotated[str, REASON]
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class JudgeNuggets(Judge):
    """One call a nugget, which sees the question, the answer's text and that nugget.

    `nugget_coverage` is the mean over questions, `keypoint_coverage` the share of all nuggets of
    all questions (IdepRAG, equation 11, where a contradicted key point counts as missed too). A
    contradicted nugget is not covered, and also counted separately. Without an answer none is
    covered. Only the first `words` words of an answer are judged (null: all), so that quoting
    everything gains nothing; `nuggets_per_100_words` is the density of nuggets in them. By rules a
    nugget is covered if the answer holds `threshold` of its words.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "text", "answer", "missing", "nuggets")
    metrics: ClassVar[tuple[Metric, ...]] = (COVERAGE, VITAL, KEY_POINTS, DENSITY, CONTRADICTED)
    schema: ClassVar[type[Answer]] = NuggetVerdict
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    words: int | None = 250

    def asks(self, case: Case) -> list[tuple[str, str]]:
        """A prompt a nugget."""
        if case["missing"]:
            return []
        shared = {"question": quoted(case["text"]), "answer": quoted(self._judged(case))}
        system = PROMPT.system()
        return [
            (system, PROMPT.user(**shared, nugget=quoted(nugget["text"])))
            for nugget in case["nuggets"]
        ]

    def rule(self, case: Case, number: int) -> NuggetVerdict:
        """Compare the words of the nugget with those of the answer."""
        nugget = case["nuggets"][number]["text"]
        found = entails(self._judged(case), nugget, case["text"], THRESHOLD)
        return NuggetVerdict(reason=found.reason, verdict=_OF_RULE[found.verdict])

    def _judged(self, case: Case) -> str:
        return first_words(case["answer"], self.words)

    def _density(self, case: Case, answers: Sequence[Completion]) -> Judgement:
        """How many nuggets 100 words cover."""
        if fault := next((answer.fault for answer in answers if answer.fault), None):
            return DENSITY.failed(case, "", fault)
        covered = sum(answer.value.verdict == "covered" for answer in answers)
        words = max(1, num_words(self._judged(case)))
        return DENSITY.judged(case, "", 100 * covered / words, f"{covered} in {words} words")

    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """Coverage of all nuggets and of the vital ones, and what is contradicted."""
        if case["nuggets"]:
            missing = bool(case["missing"])
            yield DENSITY.unanswered(case, "") if missing else self._density(case, answers)
        for number, nugget in enumerate(case["nuggets"]):
            vital = (VITAL,) if nugget["importance"] == "vital" else ()
            covering, item = (COVERAGE, *vital, KEY_POINTS), nugget["text"]
            if case["missing"]:
                yield from (metric.unanswered(case, item) for metric in covering)
                continue
            if fault := answers[number].fault:
                metrics = (*covering, CONTRADICTED)
                yield from (metric.failed(case, item, fault) for metric in metrics)
                continue
            said = answers[number].value
            reason = f"{said.verdict}: {said.reason}"
            for metric in covering:
                yield metric.judged(case, item, said.verdict == "covered", reason)
            yield CONTRADICTED.judged(case, item, said.verdict == "contradicted", reason)
