"""The density filter rejects windows with little content or no conclusion (SR-RAG, section 4.5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import pyarrow as pa

from srrag.algo.terms import terms
from srrag.core.rows import Row, filled, live, rejected
from srrag.core.step import Function, Place, Step
from srrag.lab.benchmark.sample import SEEDS
from srrag.llm.completion import Fault
from srrag.reading.prose import Role, find_quote, split_sentences

MIN_WORDS, MAX_WORDS = 6, 80
_CONCLUDES = re.compile(
    r"\b(?:should|must|recommend\w*|advis\w*|conclu\w+|suggests?|significant\w*|associated with|"
    r"improve[sd]?|reduce[sd]?|increase[sd]?|prevent\w*|effective\w*|superior|inferior|"
    r"more than|less than|no (?:difference|effect|benefit)|did not differ|"
    r"lower|higher|faster|slower|fell|rose|risk|odds|hazard|predict\w*|contraindicated|"
    r"(?:is|are) (?:safe|harmful|sufficient|preferred|acceptable))\b|\d ?%|95 ?%",
    re.IGNORECASE,
)
_PLANS = re.compile(
    r"\b(?:aim(?:s|ed)? (?:to|of|was)|objective|purpose|were (?:recruited|randomi[sz]ed|included)|"
    r"was (?:designed|conducted)|hypothesi[sz]ed?|protocol|searched|we (?:followed|describe)|"
    r"further (?:research|studies|trials))\b",
    re.IGNORECASE,
)
_LEANS = re.compile(r"(?:He|She|They|It|This|These|Those|Their|His|Her|Both|Neither)\b")
_ROLES: Mapping[Role, float] = {
    "conclusion": 3.0, "result": 2.0, "": 2.0, "background": 0.0, "method": 0.0,
}  # fmt: skip


class Conclusion(NamedTuple):
    """A concluding sentence: its span in the window (characters), and its score."""

    start: int
    end: int
    score: float


def conclusions(text: str, section: str) -> list[Conclusion]:
    """Find the window's sentences that state a finding or advice, best score first.

    Under a heading such as "Conclusion" every whole sentence counts; sentences of background and
    method sections never count.
    """
    found = []
    for sentence, role in split_sentences(text, section):
        words = sentence.count(" ") + 1
        weight = _ROLES[role]
        if not MIN_WORDS <= words <= MAX_WORDS or not weight or sentence[-1] in "?:":
            continue
        if _PLANS.search(sentence) or not (role == "conclusion" or _CONCLUDES.search(sentence)):
            continue
        span = find_quote(sentence, text)
        if span:
            weight += 0.5 * len(set(_CONCLUDES.findall(sentence.lower())))
            found.append(Conclusion(*span, weight - bool(_LEANS.match(sentence))))
    return sorted(found, key=lambda each: (-each.score, each.start))


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
