"""Did an answer choose the right evidence to cite (rethinking-rag, section 2.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from srrag.lab.judges.evidence_support import (
    check_depth,
    cited,
    lost_support,
    relevance,
    unknown,
)
from srrag.lab.measure.judgements import Case, Judgement, Measure, Metric

PRECISION = Metric("selection_precision", "cited evidence, and vital nuggets", pooled=True)
RECALL = Metric("selection_recall", "evidence that supports a vital nugget", pooled=True)
SELF_GENERATED = Metric("self_generated_references", "an answer that cites", "lower", pooled=True)


@dataclass(frozen=True, kw_only=True)
class MeasureSelection(Measure):
    """Cited against relevant evidence, over all questions together, each piece once an answer.

    Precision is the share of what is cited that is relevant, recall the share of what is relevant
    that is cited; references outside the evidence count in neither, and are a share of all
    references by themselves. An answer that failed or abstained has cited nothing of what was
    there: it counts in the recall.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "sentences", "evidence", "nuggets", "support")
    metrics: ClassVar[tuple[Metric, ...]] = (PRECISION, RECALL, SELF_GENERATED)

    depth: int | None = None
    """Of FindSupport."""

    def __post_init__(self) -> None:
        """Raise ValueError for a depth that FindSupport cannot have."""
        check_depth(self.depth)

    def measure(self, case: Case) -> Iterable[Judgement]:
        """A judgement a reference, and one a relevant piece of evidence."""
        references = cited(case)
        useful = relevance(case, self.depth)
        lost = lost_support(case) or unknown()
        for name in references:
            outside = name not in useful
            reason = "not in the evidence" if outside else "in the evidence"
            yield SELF_GENERATED.settled(case, name, outside, reason)
            if outside or not case["support"]:
                continue
            if useful[name] is None:
                yield PRECISION.failed(case, name, lost)
            else:
                yield PRECISION.judged(case, name, bool(useful[name]), "")
        for name, relevant in useful.items():
            if relevant:
                yield RECALL.judged(case, name, name in references, "")
            elif relevant is None and case["support"]:
                yield RECALL.failed(case, name, lost)
