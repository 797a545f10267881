"""Choosing among a question's options by rules: yes or no, a direction, or an option's words.

What the rules cannot read they leave open (NO_CHOICE); they never guess.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from srrag.algo.terms import terms
from srrag.answer.select.candidates import Candidate, Passage, asked_outcome, candidates
from srrag.answer.select.quotes import ExtractRule
from srrag.core.schema import NO_CHOICE
from srrag.reading.lexicon import lexicon, named_terms
from srrag.reading.statement import Direction, read_statement

POLAR = frozenset(("yes", "no", "maybe"))
NUM_QUOTES = 2
"""Sentences from which yes or no is read: the first paragraph of an answer by rules."""
QUESTION_WEIGHT, FINDING_WEIGHT = 0.3, 0.1
"""What a sentence's share of the question, and a result or conclusion, add to its share of the
outcome."""

_BEGINS = re.compile(r"\W*(yes|no|maybe)\b", re.IGNORECASE)
_EFFECT = re.compile(
    r"\beffects? of (?P<I>.+?),? (?:compared (?:with|to)|versus|vs\.?) (?P<C>.+?),? "
    r"on (?P<O>.+?)\W*$",
    re.IGNORECASE | re.DOTALL,
)


class Chosen(NamedTuple):
    """The index of an option or NO_CHOICE, what it was read from, and its passages from 1."""

    option: int
    reason: str
    cites: tuple[int, ...] = ()


class AskedOptions(NamedTuple):
    """Intervention, comparator and outcome of a question, "" for what it does not name."""

    intervention: str
    comparator: str
    outcome: str


def choose(question: str, options: Sequence[str], passages: Sequence[Passage]) -> Chosen:
    """Choose the option that the passages, best first, speak for; equal options are one."""
    if not passages:
        return Chosen(NO_CHOICE, "There is no evidence.")
    folded = [option.strip().casefold() for option in options]
    if POLAR.issuperset(folded):
        return polar(question, folded, passages)
    if told := directions(options):
        return by_direction(question, told, passages)
    return lexical(question, options, passages)


def polar(question: str, options: Sequence[str], passages: Sequence[Passage]) -> Chosen:
    """Read yes or no from the stance of the best quotes; without a quote there is no choice."""
    quotes = ExtractRule(min_coverage=0.0)(question, passages).choices[:NUM_QUOTES]
    if not quotes:
        return Chosen(NO_CHOICE, "No sentence of the evidence is on the question.")
    text = " ".join(quote.text for quote in quotes)
    said = stance(text)
    index = options.index(said) if said in options else NO_CHOICE
    return Chosen(index, text, tuple(dict.fromkeys(n for quote in quotes for n in quote.cites)))


def stance(text: str) -> str:
    """The yes, no or maybe that a text begins with; else no if it negates, and yes if not."""
    if begins := _BEGINS.match(text):
        return begins[1].casefold()
    return "no" if lexicon("negation").search(text) else "yes"


def directions(options: Sequence[str]) -> list[Direction]:
    """The direction that each option names; [] unless each names another one."""
    found = [read_statement(option).direction for option in options]
    apart = len(set(found)) == len(found) > 1 and "unclear" not in found
    return found if apart else []


def by_direction(question: str, told: Sequence[Direction], passages: Sequence[Passage]) -> Chosen:
    """Choose by the direction in the best sentence of the first passage's paper.

    Sentences rank by the share of the outcome's and the question's words that they hold, results
    and conclusions first. Those that tell no direction or name nothing of the outcome are passed
    over.
    """
    asked = parts(question)
    paper = [n for n, each in enumerate(passages) if not n or each.title == passages[0].title]
    found = [each for each in candidates(passages) if each.passage in paper and not each.plan]
    found.sort(key=lambda each: -_on_question(each, asked.outcome, question))
    outcome = "" if asked.outcome == question else asked.outcome
    words = {*named_terms(outcome)}
    for each in found:
        said = read_statement(each.core, outcome, asked.intervention, asked.comparator).direction
        if said != "unclear" and (not words or words & each.stems):
            index = told.index(said) if said in told else NO_CHOICE
            return Chosen(index, each.core, (each.passage + 1,))
    return Chosen(NO_CHOICE, "No sentence of the first paper tells a direction.")


def _on_question(each: Candidate, outcome: str, question: str) -> float:
    """How far a sentence is on the outcome and on the question."""
    words, whole = {*named_terms(outcome)}, {*named_terms(question)}
    return (
        len(words & each.stems) / max(1, len(words))
        + QUESTION_WEIGHT * len(whole & each.stems) / max(1, len(whole))
        + FINDING_WEIGHT * (each.role in ("result", "conclusion"))
    )


def parts(question: str) -> AskedOptions:
    """The parts of "effect of I, compared with C, on O"; of other questions the outcome alone."""
    found = _EFFECT.search(question)
    return (
        AskedOptions(found["I"], found["C"], found["O"])
        if found
        else AskedOptions("", "", asked_outcome(question))
    )


def lexical(question: str, options: Sequence[str], passages: Sequence[Passage]) -> Chosen:
    """Choose the option whose own words the passages hold most, passages weighted by 1 / rank.

    Words that the question or every option holds tell nothing. A tie is no choice.
    """
    words = [{*terms(option)} for option in options]
    common = set.intersection(*words) if len(words) > 1 else set()
    own = [each - common - {*terms(question)} for each in words]
    texts = [{*terms(f"{passage.title} {passage.text}")} for passage in passages]
    scores = [
        sum(len(each & text) / max(1, len(each)) / rank for rank, text in enumerate(texts, start=1))
        for each in own
    ]
    best = max(scores, default=0.0)
    rivals = {options[n].strip().casefold() for n, score in enumerate(scores) if score == best}
    if best == 0 or len(rivals) > 1:
        return Chosen(NO_CHOICE, "No option is nearer to the evidence than the others.")
    index = scores.index(best)
    cites = tuple(n for n, text in enumerate(texts, start=1) if own[index] & text)
    return Chosen(index, f"The evidence holds its words: {', '.join(sorted(own[index]))}.", cites)
