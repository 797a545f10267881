"""Nugget coverage: does an answer state each fact of the gold (TREC nuggetizer; SR-RAG, 2.4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from srrag.lab.measure.judgements import (
    DENIED,
    GRADED,
    Case,
    Judgement,
    Metric,
    first_words,
    num_words,
)
from srrag.lab.measure.judging_steps import Measure
from srrag.llm.completion import Fault

COVERAGE = Metric("nugget_coverage", "nuggets in the gold", worth=GRADED)
VITAL = Metric("nugget_coverage_vital", "vital nuggets in the gold", worth=GRADED)
KEY_POINTS = Metric("keypoint_coverage", "nuggets in the gold", pooled=True)
DENSITY = Metric("nuggets_per_100_words", "nuggets in the gold, and an answer")
CONTRADICTED = Metric(
    "nugget_contradiction", "nuggets in the gold, and an answer", "lower", worth=DENIED
)


@dataclass(frozen=True, kw_only=True)
class MeasureNuggets(Measure):
    """Coverage by what JudgeByGold said of the nuggets.

    `nugget_coverage` is the mean over questions, where a part is worth ½ (the nuggetizer's A and,
    of vital nuggets, V); `keypoint_coverage` the share of all nuggets of all questions that are
    stated in full (IdepRAG, equation 11; SR-RAG's covered or not). `nuggets_per_100_words` counts
    those in the first `words` words, as the judge saw them. Without an answer none is covered.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "answer", "missing", "nuggets", "nugget_verdicts",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (COVERAGE, VITAL, KEY_POINTS, DENSITY, CONTRADICTED)

    words: int | None = 250
    """Of JudgeByGold."""

    def measure(self, case: Case) -> Iterable[Judgement]:
        """Judgements of all nuggets, and of their density."""
        if case["nuggets"]:
            yield self._density(case)
        for nugget, said in zip(case["nuggets"], case["nugget_verdicts"], strict=True):
            vital = (VITAL,) if nugget["importance"] == "vital" else ()
            for metric in (COVERAGE, *vital, KEY_POINTS):
                yield metric.told(case, nugget["text"], said)
            if not case["missing"]:
                yield CONTRADICTED.told(case, nugget["text"], said)

    def _density(self, case: Case) -> Judgement:
        """How many nuggets 100 words cover."""
        said = case["nugget_verdicts"]
        if case["missing"]:
            return DENSITY.unanswered(case, "")
        if lost := next((each["fault"] for each in said if each["fault"]), ""):
            return DENSITY.failed(case, "", Fault(lost, "a nugget was not judged"))
        covered = sum(each["verdict"] == "full" for each in said)
        words = max(1, num_words(first_words(case["answer"], self.words)))
        return DENSITY.judged(case, "", 100 * covered / words, f"{covered} in {words} words")
