"""F1 of detecting hallucinated claims, made of yes-or-no questions (IdepRAG)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from srrag.core.ids import content_id
from srrag.lab.measure.judgements import Case, Judgement, Measure, Metric

_NEEDS = "a wrong claim on yes or no, or a right one that was called wrong"
F1 = Metric("hallucination_f1", _NEEDS, pooled=True)
OPTIONS = ("yes", "no")


@dataclass(frozen=True, kw_only=True)
class MeasureHallucination(Measure):
    """Whether the claim "the answer is yes" (or "no", by the hash of the question) is hallucinated.

    A claim that is wrong is the positive class. A system calls a claim hallucinated if it chooses
    the other option; a system that chooses nothing is wrong on every claim. `hallucination_f1` is 2
    TP / (2 TP + FP + FN), pooled over questions: a hit counts as two items of value 1, each mistake
    as one of value 0, and a right claim that is called right as none. The paper shows a model the
    claim; here the system answers the question, so that the systems of a table need no further run.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "missing", "chooses", "choice", "options", "gold_option",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (F1,)

    def measure(self, case: Case) -> Iterable[Judgement]:
        """Two judgements of a hit, one of a mistake, none of a right claim that is called right."""
        options = [option.casefold() for option in case["options"]]
        gold = case["gold_option"].casefold()
        if sorted(options) != sorted(OPTIONS) or gold not in OPTIONS:
            return
        claimed = claim(case["query_id"])
        chosen = case["choice"] if case["chooses"] and not case["missing"] else -1
        said = options[chosen] if 0 <= chosen < len(options) else ""
        reason = f"claimed {claimed}, right is {gold}, chosen {said or 'nothing'}"
        if said != gold:
            yield F1.settled(case, claimed, 0.0, reason)
        elif gold != claimed:
            yield from (F1.settled(case, claimed, 1.0, reason) for _ in range(2))


def claim(query_id: str) -> str:
    """The option that the claim of a question states, one or the other by its hash."""
    return OPTIONS[int(content_id("claim", query_id)[:8], 16) % 2]
