"""The length of an answer, shown beside every score: a longer answer is easily right more often."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from srrag.lab.measure.judgements import Case, Judgement, Measure, Metric, num_words

WORDS = Metric("answer_words", "an answer", "neither")


@dataclass(frozen=True, kw_only=True)
class MeasureLength(Measure):
    """Words of the printed answer without citation marks; abstentions count too.

    An answer that failed has no length, and is left out.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "answer", "missing")
    metrics: ClassVar[tuple[Metric, ...]] = (WORDS,)

    def measure(self, case: Case) -> Iterable[Judgement]:
        """A judgement a question with an answer."""
        if not case["missing"]:
            yield WORDS.settled(case, "", num_words(case["answer"]), "")
