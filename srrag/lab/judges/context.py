"""Was the needed evidence retrieved, and was it chosen.

As experts were asked in the study of RAG in medicine (rethinking-rag, sections 2.2 and 2.3): a
passage is relevant if it supports a statement that the answer has to make.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from srrag.lab.judges.statements import lost_support, relevance, unknown
from srrag.lab.judges.support import cited
from srrag.lab.measure.judgements import Case, Judgement, Metric, must_have
from srrag.lab.measure.judging_steps import Measure

_NEEDS = "vital nuggets in the gold"
MOST = 64
"""Pieces of evidence that a `depth` can name."""

PRECISION = Metric("evidence_precision", _NEEDS, of="evidence")
MISS = Metric("evidence_miss", _NEEDS, "lower", of="evidence")
COVERAGE = Metric("evidence_coverage", _NEEDS, of="evidence")
CONTEXT_PRECISION = Metric("context_precision", _NEEDS, of="evidence")
CHOSEN = Metric(
    "selection_precision", "cited evidence, and vital nuggets", pooled=True, of="citations"
)
CHOSEN_OF_ALL = Metric(
    "selection_recall", "evidence that supports a vital nugget", pooled=True, of="citations"
)


@dataclass(frozen=True, kw_only=True)
class MeasureEvidence(Measure):
    """Measures evidence by what JudgeStatements found.

    Of the `depth` best pieces (None: all): `evidence_coverage` is the share of statements that any
    supports (context recall), `evidence_precision` the share that supports any, `evidence_miss` 1
    where none does, and `context_precision` the average precision of their order (RASRAG, equation
    6). A question without evidence has the worst value of each.

    Over all questions together, each piece once an answer: `selection_precision` is the share of
    what is cited that is relevant, `selection_recall` that of what is relevant that is cited;
    references outside the evidence count in neither. An answer that failed or abstained has cited
    nothing of what was there.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "sentences", "evidence", "nuggets", "support")
    metrics: ClassVar[tuple[Metric, ...]] = (
        PRECISION, MISS, COVERAGE, CONTEXT_PRECISION, CHOSEN, CHOSEN_OF_ALL,
    )  # fmt: skip

    depth: int | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a depth that says nothing."""
        if self.depth is not None and not 1 <= self.depth <= MOST:
            raise ValueError(f"depth is {self.depth}: 1 to {MOST} work")

    def measure(self, case: Case) -> Iterable[Judgement]:
        """Judgements of the statements, of the evidence, of the question, and of citations."""
        if not case["support"]:
            return
        shown = [item["evidence_id"] for item in case["evidence"][: self.depth]]
        for statement, support in zip(must_have(case), case["support"], strict=True):
            if not shown:
                yield COVERAGE.settled(case, statement, 0.0, "there is no evidence")
            elif support["fault"]:
                yield COVERAGE.failed(case, statement, unknown(support["fault"]))
            else:
                found = not set(shown).isdisjoint(support["evidence_ids"])
                yield COVERAGE.judged(case, statement, found, support["reason"])
        yield from _of_evidence(case, shown)
        yield from _of_selection(case)


def _of_evidence(case: Case, shown: list[str]) -> Iterable[Judgement]:
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


def _of_selection(case: Case) -> Iterable[Judgement]:
    """A judgement a cited, and one a relevant piece of evidence."""
    references, lost = cited(case), lost_support(case) or unknown("")
    for name, relevant in relevance(case).items():
        for metric, counts, value in (
            (CHOSEN, name in references, bool(relevant)),
            (CHOSEN_OF_ALL, relevant is not False, name in references),
        ):
            if counts and relevant is None:
                yield metric.failed(case, name, lost)
            elif counts:
                yield metric.judged(case, name, value, "")


def average_precision(ranks: list[int]) -> float:
    """Mean of precision@n over the ranks n, from 1 and rising, of what is useful; 0 of nothing."""
    return sum(hits / rank for hits, rank in enumerate(ranks, start=1)) / max(1, len(ranks))
