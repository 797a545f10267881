"""Candidates for quotes: sentences that state something, with the context they need."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from srrag.answer.select.sentence_features import PLAN
from srrag.answer.write.cited import MAX_SENTENCE_CHARS
from srrag.core.grades import GRADES
from srrag.core.rows import Row
from srrag.reading.lexicon import lexicon
from srrag.reading.outcome_kinds import named_terms
from srrag.reading.prose import Role, plain, split_sentences

GRADE_STEP = 0.95
"""What a sentence's score is multiplied by for each grade below A: it decides between equals. It is
a preference, not a fit: between 1 and Table 1's .88 no public set tells one from another."""

LEANS = re.compile(
    r"(?:He|She|They|It|Its|These|Those|Their|His|Her|This|That|Such|However|But|Yet|In contrast|"
    r"By contrast|Conversely|Nevertheless|Nonetheless|Moreover|Furthermore|Additionally|"
    r"In addition|Also|Likewise|Similarly|Instead|Otherwise|On the (?:other hand|contrary)|Thus|"
    r"Therefore|Hence|Consequently|Accordingly|Both|Neither|The (?:latter|former|others?|same)|"
    r"And|Or|Nor|So|Then)\b"
)
"""Openings of sentences that depend on the sentence before."""
_TURNS = re.compile(
    r"(?:However|But|Yet|In contrast|By contrast|Conversely|Nevertheless|Nonetheless|"
    r"On the (?:other hand|contrary))\b"
)
TO_A_MODEL = re.compile(
    r"\b(?:ignore|disregard|forget)\b.{0,40}\b(?:instructions?|prompts?)\b"
    r"|\bsystem prompt\b|\blanguage model\b|\bevidence grade\s*:|\bcite (?:this|me|only)\b"
    r"|\{\s?\"|\"\s?\}|</|<\||<[a-z]{1,20}>",
    re.IGNORECASE,
)
MIN_WORDS, MAX_WORDS = 5, 90
_SHORT = re.compile(r"(?:No|None|Neither|Nobody)\b.* \S+ \S")
"""A finding may be shorter: "No harm was seen.\""""
LONG_WORD, TITLE = 4, 0.75
"""Letters of a long word, and the share of these with a capital that only a title has."""
MAX_LEANING = 2
"""Preceding sentences that a quote may include as context."""
CUT_WEIGHT = 0.7
"""Factor for a sentence without a full stop, whose end may be missing."""


class Passage(NamedTuple):
    """A piece of evidence for the ranking; `grade` is assigned by us, never read from the text.

    `weight` multiplies the score of its sentences. `paper` is the same for all that comes from one
    paper, "" where that is not known.
    """

    text: str
    title: str
    section: str
    grade: str
    weight: float = 1.0
    paper: str = ""


class Candidate(NamedTuple):
    """A sentence (`core`), the same with its context (`text`), and its position.

    `turn` is the sentence that contradicts it, where its quote ends with that, else "".
    """

    text: str
    core: str
    role: Role
    passage: int
    place: float
    turn: str
    stems: frozenset[str]
    factor: float

    @property
    def leans(self) -> bool:
        """Whether it needs its context."""
        return self.text != self.core

    @property
    def plan(self) -> bool:
        """Whether it, or what contradicts it, states an aim, a method or what is not known."""
        return self.role == "method" or plans(self.core) or bool(self.turn and plans(self.turn))


def passage_of(item: Row, weight: float = 1.0) -> Passage:
    """Make a passage of a piece of evidence; pieces with one PMID, or one title, are one paper."""
    paper = item["pmid"] or item["title"] or item["doc_id"]
    return Passage(item["text"], item["title"], item["section"], item["grade"], weight, paper)


def grade_factor(grade: str) -> float:
    """What the score of a sentence is multiplied by for its grade; without one it counts as E."""
    return GRADE_STEP ** (GRADES.index(grade) if grade in GRADES else len(GRADES) - 1)


def candidates(passages: Sequence[Passage]) -> list[Candidate]:
    """All sentences that may be quoted; a repeated text belongs to its best-ranked passage."""
    found: dict[str, Candidate] = {}
    for number, passage in enumerate(passages):
        weight = passage.weight * grade_factor(passage.grade)
        sentences = split_sentences(passage.text, passage.section)
        shown, texts = plain(passage.text), [each.text for each in sentences]
        for place, (core, role) in enumerate(sentences):
            text = whole(texts, place, shown)
            if not text or text in found or not _states(core):
                continue
            if text != core and not _states(text):
                continue
            found[text] = Candidate(
                text,
                core,
                role,
                number,
                place / max(1, len(sentences) - 1),
                _turn(texts, place, text),
                frozenset(named_terms(core)),
                weight * (1.0 if core[-1] in ".!)\"'”’" else CUT_WEIGHT),
            )
    return list(found.values())


def whole(sentences: Sequence[str], place: int, shown: str) -> str:
    """A sentence with the preceding ones it depends on, and a following one that contradicts it.

    Returns "" if its context is cut off (by the start of the passage or by a heading), or if it
    needs more than MAX_LEANING sentences or MAX_WORDS words. `shown` is the passage on one line.
    """
    first = place
    while LEANS.match(sentences[first]):
        if first == 0 or place - first == MAX_LEANING:
            return ""
        first -= 1
    turned = place + 1 < len(sentences) and _TURNS.match(sentences[place + 1])
    for last in (place + 1, place) if turned else (place,):
        text = " ".join(sentences[first : last + 1])
        if text in shown and len(text) <= MAX_SENTENCE_CHARS and text.count(" ") < MAX_WORDS:
            return text
    return ""


def _turn(sentences: Sequence[str], place: int, text: str) -> str:
    """The sentence that turns one round, where its quote ends with it, else ""."""
    after = sentences[place + 1] if place + 1 < len(sentences) else ""
    return after if after and text.endswith(after) else ""


def plans(sentence: str) -> bool:
    """Whether a sentence tells an aim, a method or what is not known, by its words."""
    return any(each.search(sentence) for each in (PLAN, lexicon("no_finding")))


def is_title(text: str) -> bool:
    """Whether nearly all long words begin with a capital, as in the title of another paper."""
    long = [word for word in text.split() if len(word) >= LONG_WORD and word[0].isalpha()]
    return len(long) >= MIN_WORDS and sum(word[0].isupper() for word in long) > TITLE * len(long)


def _states(text: str) -> bool:
    """Whether a text is a complete statement: not a question, a fragment or an order to a model."""
    words = text.count(" ") + 1
    opens = text[0].isupper() or text[0].isdigit() or text[0] in "\"'“‘(["
    enough = words >= MIN_WORDS or _SHORT.match(text) is not None
    states = enough and words <= MAX_WORDS and opens and text[-1] not in "?:"
    return states and TO_A_MODEL.search(text) is None
