"""Treatments that a paper gave to all its groups: it compares what was added, not them.

"Stimulation combined with exercise versus exercise" says nothing on exercise. The wordings are the
authors'; where none of them stands, nothing is found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from srrag.algo.terms import terms
from srrag.answer.gate.coverage import GENERAL
from srrag.answer.select.sentence_features import asked_outcome
from srrag.reading.prose import cut_sentences

_WORD = r"[\w'’/%+-]+(?:\s\([^()]{1,60}\)[\w/]{0,3})?"
"""A word, and what stands in brackets behind it."""
_NAME = rf"{_WORD}(?:\s{_WORD}){{0,7}}?"
_JOIN = (
    r"(?:(?:in\s)?(?:combined|combination|together)\swith|plus|and|with|\+|&|followed\sby|added\sto|"
    r"in\saddition\sto)"
)
_VERSUS = (
    r"(?:versus|vs\.?|against|or|and|than|(?:as\s)?compared\s(?:with|to)|"
    r"in\scomparison\s(?:with|to))"
)
_END = (
    r"(?=\s(?:in|for|on|among|at|during|after|was|were|to|by|vs|versus|"
    r"group|groups|would|did|had)\b|[.,;:]|$)"
)
_START = r"(?<![\w'’/%+-])"
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_START}(?P<one>(?:{_WORD}\s){{1,6}}){_JOIN}\s(?P<two>{_NAME}),?\s{_VERSUS}\s"
        rf"(?P<base>{_NAME})(?:\s(?:alone|only))?{_END}",
        rf"{_START}(?P<base>(?:{_WORD}\s){{1,4}}?)(?:alone|only)\s{_VERSUS}\s(?P<one>{_NAME})\s{_JOIN}\s"
        rf"(?P<two>{_NAME}){_END}",
        rf"{_START}(?P<base>(?:{_WORD}\s){{1,4}})(?:alone|only)\s{_VERSUS}\s{_JOIN}\s(?P<added>{_NAME}){_END}",
        rf"{_START}(?P<base>(?:{_WORD}\s){{1,5}}),?\s?(?:either\s)?with\s(?:and|or|versus|vs\.?)\swithout\s"
        rf"(?P<added>{_NAME}){_END}",
        rf"{_START}(?:adding|addition\sof)\s(?P<added>{_NAME})\sto\s(?P<base>{_NAME}){_END}",
    )
)
"""What was added to what, in words that say so; without `added` one of two is the base again."""
_CUES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\s{_JOIN}\s.*\s{_VERSUS}\s",
        r"\b(?:alone|only)\s",
        r"\b(?:alone|only)\s",
        r"\bwith\s(?:and|or|versus|vs\.?)\swithout\s",
        r"\b(?:adding|addition\sof)\s",
    )
)
"""Words without which the pattern of the same place finds nothing; a look for them costs little."""
_COMMON_TEXT = (
    "alone combined combination control conventional group groups only program programme protocol "
    "regular routine standard therapy training treatment usual care intervention placebo sham "
    "patients participants subjects rehabilitation additional supplementation receive received "
    "randomized randomly assigned allocated undergo underwent treated given consumed daily"
)
_COMMON = GENERAL | frozenset(terms(_COMMON_TEXT))
"""Words that tell no treatment from another."""
_COMBINES = re.compile(
    r"\b(?:plus|combin\w+|together with|in addition to|added to|adjunct\w*)\b|\+|&", re.IGNORECASE
)
_VERB = re.compile(
    r"\b(?:has|have|had|is|are|was|were|be|been|may|can|could|should|did|not)\b", re.IGNORECASE
)
_QUESTION_WORD = re.compile(r"[\w'’-]+")


class GivenToAll(NamedTuple):
    """What was asked about, in the question's words, and the comparison that all got it in."""

    asked: str
    found: str


def given_to_all(question: str, text: str) -> GivenToAll | None:
    """The first comparison in a text of groups that all got what the question asks about.

    It names a treatment that was added to another, where the question has more than half of the
    telling words of the other and none of the added one. None in doubt, and for a question that
    asks about a combination itself.
    """
    named, asked = _asked(question)
    if not _may_compare(text, asked):
        return None
    for sentence in cut_sentences(" ".join(text.split())):
        counts = Counter(terms(sentence))
        for found, base, added in _compared(sentence, max(counts[stem] for stem in asked)):
            telling = telling_words(base)
            more = telling_words(added) - telling
            shared = telling & asked
            if len(shared) * 2 > len(telling) and more and not more & named:
                return GivenToAll(_run(question, shared), found)
    return None


@lru_cache(8)
def _asked(question: str) -> tuple[frozenset[str], frozenset[str]]:
    """The stems of a question, and those that tell what it asks about; none of a combination."""
    named = frozenset(terms(question))
    outcome = asked_outcome(question)
    asked = named.difference(terms(outcome)) if outcome != question else named
    return named, frozenset() if _COMBINES.search(question) else asked - _COMMON


def _may_compare(text: str, asked: frozenset[str]) -> bool:
    """Whether a text has enough of the words asked about, and of those that say what was added."""
    counts = Counter(terms(text))
    most = max((counts[stem] for stem in asked), default=0)
    told = text.lower() if most == 1 else ""
    return most > 1 or any(cue in told for cue in ("alone", "only", "without", "add"))


def _compared(sentence: str, times: int) -> Iterator[tuple[str, str, str]]:
    """Comparisons as they stand, with what all groups got and what was added for one of them.

    What all got has a word that stands at most `times` in the sentence: once where the pattern
    names what was added, twice where both groups' treatments are told.
    """
    for pattern, cue in zip(_PATTERNS, _CUES, strict=True):
        if times < (1 if "added" in pattern.groupindex else 2) or not cue.search(sentence):
            continue
        for found in pattern.finditer(sentence):
            said = found.groupdict()
            pairs = [(said["base"], said.get("added") or "")]
            if not pairs[0][1]:
                pairs = [(said["two"], said["one"]), (said["one"], said["two"])]
            for given, added in pairs:
                base = telling_words(said["base"])
                if base and base <= telling_words(given) and not _VERB.search(found[0]):
                    yield found[0].strip(), said["base"], added
                    break


def telling_words(name: str) -> set[str]:
    """Stems of the words of a name that tell a treatment from others."""
    return {*terms(name)} - _COMMON


def _run(question: str, stems: set[str]) -> str:
    """The first words of a question, one after the other, that have these stems."""
    words = [*_QUESTION_WORD.finditer(question)]
    held = [not stems.isdisjoint(terms(word[0])) for word in words]
    first = held.index(True)
    last = first
    while last + 1 < len(held) and held[last + 1] and _beside(question, words, last):
        last += 1
    return question[words[first].start() : words[last].end()]


def _beside(text: str, words: list[re.Match[str]], place: int) -> bool:
    """Whether nothing but space stands between a word and the next."""
    return text[words[place].end() : words[place + 1].start()].isspace()
