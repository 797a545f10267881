"""The form of an answer: its length, shown beside every score, and the caps of TREC BioGen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from srrag.lab.measure.judgements import Case, Judgement, Metric, num_words
from srrag.lab.measure.judging_steps import Measure

WORDS = Metric("answer_words", "an answer", "neither")
WITHIN = Metric("within_caps", "an answer with sentences")


@dataclass(frozen=True, kw_only=True)
class MeasureForm(Measure):
    """Words of the printed answer without citation marks, and whether it keeps within caps.

    `answer_words` counts abstentions too; an answer that failed has no length. `within_caps` is
    whether the sentences have at most `words` words together and `citations` articles each.
    """

    reads: ClassVar[tuple[str, ...]] = ("query_id", "answer", "missing", "sentences", "evidence")
    metrics: ClassVar[tuple[Metric, ...]] = (WORDS, WITHIN)

    words: int = 250
    citations: int = 3

    def measure(self, case: Case) -> Iterable[Judgement]:
        """A judgement a metric."""
        if not case["missing"]:
            yield WORDS.settled(case, "", num_words(case["answer"]), "")
        names = {e["evidence_id"]: e["pmid"] or e["source_id"] for e in case["evidence"]}
        sizes = [len({names.get(n, n) for n in s["evidence_ids"]}) for s in case["sentences"]]
        if sizes:
            length = sum(len(each["text"].split()) for each in case["sentences"])
            within = length <= self.words and max(sizes) <= self.citations
            reason = f"{length} words, at most {max(sizes)} citations a sentence"
            yield WITHIN.settled(case, "", within, reason)
