"""Does an answer say all that it has to, and why not (rethinking-rag, section 2.4.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from srrag.lab.judges.statements import unknown
from srrag.lab.judges.support import cited
from srrag.lab.measure.judgements import MADE, Case, Judgement, Metric, must_have
from srrag.lab.measure.judging_steps import Measure

_NEEDS = "vital nuggets in the gold"


def _group(name: str, needs: str) -> Metric:
    return Metric(f"completeness_{name}", f"vital nuggets that {needs}", pooled=True, worth=MADE)


RESPONSE = Metric("completeness_response", _NEEDS, worth=MADE)
STATEMENTS = Metric("completeness", _NEEDS, worth=MADE)
REFERENCED = _group("supported_referenced", "cited evidence supports")
MISSED = _group("supported_missed", "only evidence not cited supports")
UNSUPPORTED = _group("unsupported", "no evidence supports")
_GROUPS = (REFERENCED, MISSED, UNSUPPORTED)


@dataclass(frozen=True, kw_only=True)
class MeasureCompleteness(Measure):
    """Completeness by what JudgeByGold said of the vital nuggets.

    A nugget that the answer makes in full or in part counts as made. `completeness_response` is the
    share of answers that make all, `completeness` the mean over questions of the share made; then
    that of all nuggets which cited evidence supports, which only evidence that was not cited
    supports, and which none supports.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "query_id", "answer", "missing", "sentences", "nuggets", "support", "nugget_verdicts",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (RESPONSE, STATEMENTS, *_GROUPS)

    def measure(self, case: Case) -> Iterable[Judgement]:
        """Judgements of the answer, of its vital nuggets, and of the groups that they are in."""
        named = set(cited(case))
        said = [
            verdict
            for nugget, verdict in zip(case["nuggets"], case["nugget_verdicts"], strict=True)
            if nugget["importance"] == "vital"
        ]
        for item, verdict, support in zip(must_have(case), said, case["support"], strict=True):
            yield STATEMENTS.told(case, item, verdict)
            lost = support["fault"]
            for metric in _groups(support, named):
                if lost and not case["missing"] and not verdict["fault"]:
                    yield metric.failed(case, item, unknown(lost))
                elif not (lost and case["missing"]):
                    yield metric.told(case, item, verdict)
        if said:
            yield RESPONSE.whole(case, said, "made")


def _groups(support: dict[str, Any], named: set[str]) -> Sequence[Metric]:
    """The group of a nugget; all of them if it is not known what supports it."""
    if support["fault"]:
        return _GROUPS
    if not support["evidence_ids"]:
        return (UNSUPPORTED,)
    return (REFERENCED,) if named & set(support["evidence_ids"]) else (MISSED,)
