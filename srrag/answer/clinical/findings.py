"""The findings behind an answer: each quote in its context, with population, effect and source."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srrag.answer.clinical.asked import AskedQuestion
from srrag.answer.clinical.paper import CitedPaper, enrolled, population
from srrag.answer.clinical.stance import (
    PaperStance,
    direction_in,
    fitting,
    key_sentence,
    on_outcome,
)
from srrag.answer.write.cited import without_lead
from srrag.reading.prose import split_sentences

MAX_EFFECTS = 2
_N = r"(?<![\d:.·])[-−–+]?\d+(?:[.·]\d+)?(?!:)"
_UNIT = r"(?:\s?(?:%|mm(?:Hg)?|cm|kg|g|mg|s|ms|points?|days?|weeks?|months?|°|m/s|mmol/L))?"
_LEVEL = r"(?P<level>\d{2}(?:\.\d)?)\s?%\s?(?:confidence interval|CI|CrI)s?(?:\s?[(\[]CI[)\]])?"
_RANGE = rf"[\s:,;=(\[]*(?P<low>{_N}){_UNIT}\s?(?:to|-|–|−|,|;)\s?(?P<high>{_N}){_UNIT}"
_INTERVAL = re.compile(_LEVEL + _RANGE)
_NAME = re.compile(
    r"\b(?:(?:adjusted|unadjusted|pooled|crude|weighted|standardi[sz]ed|absolute|relative|group"
    r"|between-group|mean|risk|rate|odds|hazard)[\s-]+){0,3}(?:odds ratios?|risk ratios?"
    r"|rate ratios?|hazard ratios?|relative risks?|risk reductions?|differences?|effect sizes?"
    r"|(?<=adjusted )OR|a?OR|a?RR|a?HR|IRR|SMD|WMD|MD|ARR|NNT)\b",
)
_BETWEEN = re.compile(r"difference|ratio|risk|\b(?:a?OR|a?RR|a?HR|IRR|S?MD|WMD|ARR)\b")
_P = re.compile(r"\b[Pp](?:[\s-]?values?)?\s?(?P<sign>[<=>≤≥])\s?(?P<p>0?[.·]\d+|[01])")
_LOOK_BACK = 90
_VERSUS = re.compile(
    rf"{_N}{_UNIT}(?:\s?[±(]\s?{_N}{_UNIT}(?:\s?[-–to]+\s?{_N})?\)?{_UNIT})?"
    rf"[^.;()]{{0,40}}?\b(?:vs\.?|versus|compared (?:to|with))\s+[^.;()]{{0,30}}?{_N}{_UNIT}"
    rf"(?:\s?±\s?{_N}{_UNIT})?",
)
_NAMED = re.compile(
    r"\b(?:odds ratio|risk ratio|rate ratio|hazard ratio|relative risk|effect size|mean difference"
    r"|OR|RR|HR|IRR|SMD|MD)(?:\s?[(\[][A-Za-z]{2,4}[)\]])?"
    rf"\s?(?:[=:,]|of|was)\s?{_N}{_UNIT}"
)
_BY = re.compile(
    rf"\bby\s+(?:an? (?:mean|average) (?:of )?)?{_N}\s?(?:%|[a-zA-Z/°]{{1,12}})"
    r"(?:\s?per [a-z]+)?",
)
_CHANGE = re.compile(rf"\([^()]{{0,30}}?[+−-]\s?{_N}{_UNIT}[^()]{{0,40}}\)")
_PERCENT = re.compile(
    rf"{_N}\s?%(?:\s(?:higher|lower|greater|less|more|fewer|reduction|increase))?"
)


@dataclass(frozen=True)
class StatedEffect:
    """A stretch of a sentence that states an effect, verbatim, and what stands in it.

    `low` and `high` bound its interval of `level` per cent; all are "" where none is stated.
    """

    text: str
    measure: str = ""
    low: str = ""
    high: str = ""
    level: str = ""
    p: str = ""


def stated_effects(sentence: str) -> list[StatedEffect]:
    """The effects of a sentence: between groups with an interval, others with one, else numbers."""
    found = [_estimate(sentence, match) for match in _INTERVAL.finditer(sentence)]
    found.sort(key=lambda each: not _BETWEEN.search(each.measure))
    if found:
        return found[:MAX_EFFECTS]
    p_values = [match["sign"] + " " + match["p"] for match in _P.finditer(sentence)]
    p = p_values[0] if len({*p_values}) == 1 else ""
    for pattern in (_NAMED, _VERSUS, _CHANGE, _BY, _PERCENT):
        stretches = [match[0].strip() for match in pattern.finditer(sentence) if _real(match[0])]
        if stretches:
            return [StatedEffect(each, p=p) for each in dict.fromkeys(stretches)][:MAX_EFFECTS]
    return [StatedEffect(match[0].strip(), p=p) for match in _P.finditer(sentence) if p][:1]


def _estimate(sentence: str, interval: re.Match[str]) -> StatedEffect:
    """The estimate before an interval, from its name or number on."""
    start = max(0, interval.start() - _LOOK_BACK)
    before = sentence[start : interval.start()]
    clause = max(before.rfind(". ") + 2, before.rfind("), ") + 3)
    before = before[clause if clause > 3 else 0 :]
    names = [*_NAME.finditer(before)]
    numbers = [*re.finditer(rf"(?<![\w.±])(?<!± ){_N}", before)]
    if names:
        abbreviates = len(names) > 1 and before[names[-2].end() : names[-1].start()] in (" (", " [")
        begin = names[-2 if abbreviates else -1].start()
    elif numbers:
        begin = numbers[-1].start()
    else:
        begin = len(before)
    text, end = before[begin:] + interval[0], interval.end()
    while sentence[end : end + 1] in (")", "]") and _opens(text):
        text, end = text + sentence[end], end + 1
    after = _P.match(sentence[interval.end() :].lstrip(" ,;)]")[:20])
    return StatedEffect(
        text.strip(),
        names[-1][0] if names else "",
        interval["low"],
        interval["high"],
        interval["level"],
        f"{after['sign']} {after['p']}" if after else "",
    )


def _opens(text: str) -> bool:
    """Whether a bracket of a text is still open."""
    return text.count("(") > text.count(")") or text.count("[") > text.count("]")


def _real(stretch: str) -> bool:
    """Whether a stretch tells more than the level of an interval or a year."""
    return not re.fullmatch(r"(?:9[059]|99)\s?%", stretch.strip())


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
                        asked,
                        text,
                        number,
                        by_number[number],
                        cited=True,
                        fits=quoted and number in fits,
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
