"""Was the needed evidence retrieved: precision, miss and coverage of must-have statements.

As experts were asked in the study of RAG in medicine (section 2.2 of rethinking-rag): a passage is
relevant if it supports a statement that the answer has to make.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from srrag.lab.judges.support import best_pieces, check_depth, lost_support, relevance, unknown
from srrag.lab.measure.judgements import Case, Judgement, Measure, Metric, must_have

_NEEDS = "vital nuggets in the gold"

PRECISION = Metric("evidence_precision", _NEEDS)
MISS = Metric("evidence_miss", _NEEDS, "lower")
COVERAGE = Metric("evidence_coverage", _NEEDS)
CONTEXT_PRECISION = Metric("context_precision", _NEEDS)


@dataclass(frozen=True, kw_only=True)
class MeasureEvidence(Measure):
    """Measures the `depth` best pieces of evidence (None: all) by what JudgeSupport found.

    `evidence_coverage` is the share of statements that any supports (context recall),
    `evidence_precision` the share of the evidence that supports any, `evidence_miss` 1 where none
    does, and `context_precision` the average precision of their order (RASRAG, equation 6). A
    question without evidence has the worst value of each.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "evidence", "nuggets", "support")
    metrics: ClassVar[tuple[Metric, ...]] = (PRECISION, MISS, COVERAGE, CONTEXT_PRECISION)

    depth: int | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a depth that says nothing."""
        check_depth(self.depth)

    def measure(self, case: Case) -> Iterable[Judgement]:
        """Judgements of the statements, of the evidence, and of the question."""
        shown = [item["evidence_id"] for item in best_pieces(case, self.depth)]
        for statement, support in zip(must_have(case), case["support"], strict=True):
            if not shown:
                yield COVERAGE.settled(case, statement, 0.0, "there is no evidence")
            elif support["fault"]:
                yield COVERAGE.failed(case, statement, unknown(support["fault"]))
            else:
                found = not set(shown).isdisjoint(support["evidence_ids"])
                yield COVERAGE.judged(case, statement, found, support["reason"])
        if case["support"]:
            yield from _evidence(case, shown)


def _evidence(case: Case, shown: list[str]) -> Iterable[Judgement]:
    """Precision, miss and order; what a lost verdict may have named is not judged."""
    if not shown:
        for metric in (PRECISION, MISS, CONTEXT_PRECISION):
            yield metric.settled(case, "", metric.worst, "there is no evidence")
        return
    lost, useful = lost_support(case), relevance(case)
    for name in shown:
        if useful[name] is None and lost:
            yield PRECISION.failed(case, name, lost)
        else:
            yield PRECISION.judged(case, name, bool(useful[name]), "")
    ranks = [rank for rank, name in enumerate(shown, start=1) if useful[name]]
    said = f"{len(ranks)} of {len(shown)} support a statement"
    for metric, value, known in (
        (MISS, not ranks, bool(ranks)),
        (CONTEXT_PRECISION, average_precision(ranks), False),
    ):
        if lost and not known:
            yield metric.failed(case, "", lost)
        else:
            yield metric.judged(case, "", value, said)


def average_precision(ranks: list[int]) -> float:
    """Mean of precision@n over the ranks n, from 1 and rising, of what is useful; 0 of nothing."""
    return sum(hits / rank for hits, rank in enumerate(ranks, start=1)) / max(1, len(ranks))
