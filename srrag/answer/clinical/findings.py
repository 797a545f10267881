"""The findings behind an answer: each quote in its context, with population, effect and source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srrag.answer.clinical.asked import AskedQuestion
from srrag.answer.clinical.effects import StatedEffect, stated_effects
from srrag.answer.clinical.paper import CitedPaper
from srrag.answer.clinical.population import enrolled, population
from srrag.answer.clinical.stance import (
    PaperStance,
    direction_in,
    fitting,
    key_sentence,
    on_outcome,
)
from srrag.answer.write.cited import without_lead
from srrag.reading.prose import split_sentences

MAX_UNCITED = 3
Row = Mapping[str, Any]


@dataclass(frozen=True)
class QuotedFinding:
    """A finding of a paper: its quote verbatim with the sentence before and after it.

    `says` is what the quote says of the asked outcome, "" where no word tells. `cited` is false
    for a finding that the answer leaves out. `verbatim` is false for words of a model's own.
    """

    number: int
    cited: bool
    verbatim: bool
    quote: str
    before: str
    after: str
    says: str
    on_outcome: bool
    effects: tuple[StatedEffect, ...]
    population: str
    enrolled: str


def quoted_findings(
    asked: AskedQuestion,
    sentences: Sequence[Row],
    papers: Sequence[CitedPaper],
    found: Sequence[PaperStance],
    *,
    quoted: bool,
) -> list[QuotedFinding]:
    """A finding for each sentence that the answer cites, then of papers that it does not cite.

    Those on the outcome come first. Of an answer that quotes, what is no quote is no finding.
    """
    by_number = {item["number"]: paper for paper in papers for item in paper.items}
    on_question = zip(papers, fitting(asked, papers), strict=True)
    fits = {item["number"] for paper, fit in on_question if fit for item in paper.items}
    findings, seen = [], set[str]()
    for each in sentences:
        text = without_lead(each["text"])
        for number in each["citations"][:1]:
            if text not in seen:
                seen.add(text)
                findings.append(
                    _finding(
                        asked, text, number, by_number[number], cited=True, fits=number in fits
                    )
                )
    others = [stance for stance in found if not stance.cited][:MAX_UNCITED]
    for stance in others:
        paper = by_number[stance.number]
        number = next(s.number for s in paper.sentences if s.text == stance.sentence)
        findings.append(_finding(asked, stance.sentence, number, paper, cited=False, fits=True))
    findings = [each for each in findings if each.verbatim or not quoted]
    return sorted(findings, key=lambda each: (not each.cited, not each.on_outcome))


def _finding(
    asked: AskedQuestion, quote: str, number: int, paper: CitedPaper, *, cited: bool, fits: bool
) -> QuotedFinding:
    item = next(each for each in paper.items if each["number"] == number)
    before, after, verbatim = _context(item, quote)
    core = key_sentence(asked, quote)
    said = direction_in(asked, core)
    named = on_outcome(asked, [core])[0] > 0
    return QuotedFinding(
        number, cited, verbatim, quote, before, after,
        asked.answer_of(said) if named and fits else "", named,
        tuple(stated_effects(core)) if named else (),
        population(paper), enrolled(paper),
    )  # fmt: skip


def _context(item: Row, quote: str) -> tuple[str, str, bool]:
    """The sentences before and after a quote in its passage, and whether it stands there."""
    texts = [each.text for each in split_sentences(item["text"], item["section"])]
    inside = [n for n, text in enumerate(texts) if text in quote]
    if not inside or texts[inside[0]] not in quote:
        return "", "", False
    first, last = inside[0], inside[-1]
    before = texts[first - 1] if first else ""
    after = texts[last + 1] if last + 1 < len(texts) else ""
    return before, after, " ".join(texts[first : last + 1]) == quote
