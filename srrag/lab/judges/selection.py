"""Did an answer choose the right evidence to cite (rethinking-rag, section 2.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from srrag.lab.judges.support import cited, lost_support, relevance, unknown
from srrag.lab.measure.judgements import Case, Judgement, Measure, Metric

PRECISION = Metric(
    "selection_precision", "cited evidence, and vital nuggets", pooled=True, cites=True
)
RECALL = Metric(
    "selection_recall", "evidence that supports a vital nugget", pooled=True, cites=True
)


@dataclass(frozen=True, kw_only=True)
class MeasureSelection(Measure):
    """Cited against relevant evidence, over all questions together, each piece once an answer.

    Precision is the share of what is cited that is relevant, recall the share of what is relevant
    that is cited; references outside the evidence count in neither (`citations_outside`). An answer
    that failed or abstained has cited nothing of what was there: it counts in the recall.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "sentences", "evidence", "nuggets", "support")
    metrics: ClassVar[tuple[Metric, ...]] = (PRECISION, RECALL)

    def measure(self, case: Case) -> Iterable[Judgement]:
        """A judgement a cited, and one a relevant piece of evidence."""
        if not case["support"]:
            return
        references = cited(case)
        useful, lost = relevance(case), lost_support(case) or unknown("")
        for name, relevant in useful.items():
            for metric, counts, value in (
                (PRECISION, name in references, bool(relevant)),
                (RECALL, relevant is not False, name in references),
            ):
                if counts and relevant is None:
                    yield metric.failed(case, name, lost)
                elif counts:
                    yield metric.judged(case, name, value, "")
