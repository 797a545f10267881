"""The density filter rejects windows with little content or no conclusion (SR-RAG, section 4.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from srrag.algo.terms import terms
from srrag.core.rows import Row, filled, live, rejected
from srrag.core.step import Function, Place, Step
from srrag.lab.benchmark.detect_conclusions import conclusions
from srrag.lab.benchmark.relations import SEEDS
from srrag.llm.completion import Fault
from srrag.reading.prose import split_sentences


@dataclass(frozen=True, kw_only=True)
class FilterDense(Step):
    """Rejects windows by rules; the question writer's model may refuse more of them.

    `thin`: fewer than `min_terms` distinct content words in whole sentences. `sparse`: content
    words are less than `min_share` of the sentences' words, as in lists of names and numbers.
    `no_conclusion`: no sentence states a finding or advice. The paper does not publish thresholds;
    the defaults reject the windows of the sample that a reader would reject.
    """

    reads: ClassVar[tuple[str, ...]] = ("window", "section")
    writes: ClassVar[pa.Schema] = SEEDS

    min_terms: int = 14
    min_share: float = 0.4

    def open(self, at: Place) -> Function:
        """Load nothing."""

        def run(batch: pa.Table) -> pa.Table:
            made = {row: self._judged(seed) for row, seed in live(batch, self.reads)}
            return filled(batch, pa.schema([SEEDS.field("reject")]), made)

        return run

    def _judged(self, seed: Row) -> Row:
        fault = self._fault(seed["window"], seed["section"])
        return rejected("dense", fault) if fault else {}

    def _fault(self, window: str, section: str) -> Fault | None:
        prose = " ".join(sentence.text for sentence in split_sentences(window, section))
        words, found = len(prose.split()), terms(prose)
        if (different := len(set(found))) < self.min_terms:
            return Fault("thin", f"{different} different content words in {words}")
        if len(found) < self.min_share * words:
            return Fault("sparse", f"{len(found)} content words in {words}")
        if not conclusions(window, section):
            return Fault("no_conclusion", "no sentence states a finding or advice")
        return None
