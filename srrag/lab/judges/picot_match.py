"""PICOT match: is an answer about the population, intervention, … asked for (SR-RAG, S4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from srrag.lab.measure.judgements import FIELDS, Case, Judgement, Metric
from srrag.lab.measure.judging_steps import Measure

_NEEDS = "a PICOT field in the gold"

MATCH = Metric("picot_match", _NEEDS, pooled=True)
WITH_MISSING = Metric("picot_match_missing_counted", _NEEDS, pooled=True)


@dataclass(frozen=True, kw_only=True)
class MeasurePicot(Measure):
    """The share of parts that JudgeByGold matched in full, over all questions together.

    A part that the gold lacks is left out of `picot_match` (SR-RAG, section 2.4 and Listing S4),
    and counts as matched in `picot_match_missing_counted` (its section 4.6), unless there is no
    answer: then nothing is matched.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "answer", "missing", "picot", "picot_verdicts")
    metrics: ClassVar[tuple[Metric, ...]] = (MATCH, WITH_MISSING)

    def measure(self, case: Case) -> Iterable[Judgement]:
        """A judgement a part, once without and once with the parts that the gold lacks."""
        said = iter(case["picot_verdicts"])
        for name in FIELDS if any(case["picot"].values()) else ():
            if case["picot"][name]:
                verdict = next(said)
                yield from (metric.told(case, name, verdict) for metric in self.metrics)
            elif case["missing"]:
                yield WITH_MISSING.unanswered(case, name)
            else:
                yield WITH_MISSING.settled(case, name, 1.0, "the gold lacks this part")
