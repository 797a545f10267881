"""Candidates for quotes: sentences that state something, their context, and their features."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from srrag.answer.write.cited import MAX_SENTENCE_CHARS
from srrag.core.rows import Row
from srrag.core.standing import GRADES
from srrag.reading.lexicon import NAMES, alternatives, lexicon, named_terms
from srrag.reading.prose import Role, has_no_results, plain, split_sentences
from srrag.reading.statement import tells_effect

Floats = npt.NDArray[np.float64]

FEATURES = (
    "own", "beside", "outcome", "conclusion", "result", "background", "method", "finding", "plan",
    "direction", "numbers", "leans", "length", "short", "first_passage", "rank", "place",
    "result_outcome", "conclusion_own", "direction_outcome", "numbers_outcome", "definition",
)  # fmt: skip
"""What `features` measures of a sentence, in order."""

FINDING = lexicon("finding")
PLAN = lexicon("plan")
NUMBERS = re.compile(r"\bp\s?[<=>≤]|\bCI\b|confidence interval|\d\s?%|±|\b[OHR]R\b", re.IGNORECASE)
_DEFINITION = re.compile(r"\b(?:is|are) (?:an?|the|caused|characteri[sz]ed|defined)\b")
_ON = re.compile(
    r"\b(?:on|reduce|improve|affect|increase|prevent|decrease|lower|influence|relieve|shorten|"
    r"help with)\s+(.+?)(?:\s+(?:in|among|for|after|during)\s+(?:[\w-]+\s+){0,2}?"
    rf"(?:{alternatives('person', 'animal', 'grouped')}|older)\b.*)?\?*$",
    re.IGNORECASE,
)


class Seen(NamedTuple):
    """What is known of a candidate: shares of the question (0…1), and where it stands.

    `own` is the share of the question's weight that its own words carry, `beside` what only its
    passage or title does, `outcome` the share of the asked outcome. `rank` counts passages from 0,
    `place` is 0 at the start of its passage and 1 at its end.
    """

    text: str
    role: Role
    own: float
    beside: float
    outcome: float
    leans: bool
    rank: int
    place: float


def asked_outcome(question: str) -> str:
    """The words of the outcome that a question asks for, the whole question if that is not told.

    "Is yoga safe in pregnancy?" asks for harm, in this word or another.
    """
    if found := _ON.search(question):
        return found[1]
    kinds = NAMES.intersection(named_terms(question))
    return " ".join(sorted(kinds)) or question


def features(found: Sequence[Seen]) -> Floats:
    """FEATURES of each candidate, float64 (candidates, features)."""
    return np.array([_row(each) for each in found], np.float64).reshape(len(found), len(FEATURES))


@lru_cache(maxsize=8192)
def _signs(text: str) -> tuple[bool, bool, bool, bool, bool]:
    """What the words of a sentence tell by themselves."""
    patterns = (FINDING, PLAN, NUMBERS, _DEFINITION)
    finding, plan, counted, definition = (bool(each.search(text)) for each in patterns)
    return finding, plan, tells_effect(text), counted, definition


def _row(each: Seen) -> list[float]:
    finding, plan, directed, counted, definition = _signs(each.text)
    words = each.text.count(" ") + 1
    return [
        each.own,
        each.beside,
        each.outcome,
        each.role == "conclusion",
        each.role == "result",
        each.role == "background",
        each.role == "method",
        finding,
        plan,
        directed,
        counted,
        each.leans,
        min(words, 60) / 60,
        words < 10,
        each.rank == 0,
        1 / (1 + each.rank),
        each.place,
        (each.role == "result") * each.outcome,
        (each.role == "conclusion") * each.own,
        directed * each.outcome,
        counted * each.outcome,
        definition,
    ]


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
_TO_A_MODEL = re.compile(
    r"\b(?:ignore|disregard|forget)\b.{0,40}\b(?:instructions?|prompts?)\b"
    r"|\bsystem prompt\b|\blanguage model\b|\bevidence grade\s*:|\bcite (?:this|me|only)\b"
    r"|\{\s?\"|\"\s?\}|</|<\||<[a-z]{1,20}>",
    re.IGNORECASE,
)
_NEEDED = (
    "instruction", "prompt", "language model", "evidence grade", "cite ", "{", "}", "<"
)  # fmt: skip
"""One of these stands in whatever that pattern finds; a look for them takes a tenth of the time."""
MIN_WORDS, MAX_WORDS = 5, 90
_SHORT = re.compile(r"(?:No|None|Neither|Nobody)\b.* \S+ \S")
"""A finding may be shorter: "No harm was seen.\""""
_LISTED = re.compile(r"(?:key ?words|abbreviations)\b", re.IGNORECASE)
"""A line of a paper's first page, which states nothing."""
LONG_WORD, TITLE = 4, 0.75
"""Letters of a long word, and the share of these with a capital that only a title has."""
MAX_LEANING = 2
"""Preceding sentences that a quote may include as context."""
CUT_WEIGHT = 0.7
"""Factor for a sentence without a full stop, whose end may be missing."""


class Passage(NamedTuple):
    """A piece of evidence for the ranking; `grade` is assigned by us, never read from the text.

    `weight` multiplies the score of its sentences. `paper` is the same for all that comes from one
    paper, "" where that is not known. `results` is false for a paper that only plans a study.
    """

    text: str
    title: str
    section: str
    grade: str
    weight: float = 1.0
    paper: str = ""
    results: bool = True


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


def passage_of(item: Row, weight: float = 1.0, *, results: bool = True) -> Passage:
    """Make a passage of a piece of evidence; pieces with one PMID, or one title, are one paper."""
    return Passage(
        item["text"], item["title"], item["section"], item["grade"], weight, _paper(item), results
    )


def planned(evidence: Sequence[Row]) -> set[str]:
    """The pieces of evidence, by id, whose papers only plan a study; a guideline is none."""
    texts: dict[str, list[str]] = {}
    for item in evidence:
        texts.setdefault(_paper(item) or item["evidence_id"], []).append(item["text"])
    return {
        item["evidence_id"]
        for item in evidence
        if item["grade"] != "A"
        and has_no_results(item["title"], "\n".join(texts[_paper(item) or item["evidence_id"]]))
    }


def _paper(item: Row) -> str:
    return str(item["pmid"] or item["title"] or item["doc_id"])


def titles(evidence: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """What to tell of each piece's paper: its title, or which earlier piece it is `more_of`."""
    first: dict[str, int] = {}
    for number, item in enumerate(evidence, 1):
        name = item["doc_id"] or item["evidence_id"]
        whole = first.setdefault(name, number)
        yield {"title": item["title"]} if whole == number else {"more_of": whole}


def grade_factor(grade: str) -> float:
    """What the score of a sentence is multiplied by for its grade; without one it counts as E."""
    return GRADE_STEP ** (GRADES.index(grade) if grade in GRADES else len(GRADES) - 1)


def candidates(passages: Sequence[Passage]) -> list[Candidate]:
    """All sentences that may be quoted; a repeated text belongs to its best-ranked passage."""
    found: dict[str, Candidate] = {}
    for number, passage in enumerate(passages):
        weight = passage.weight * grade_factor(passage.grade)
        for each in read_window(passage.text, passage.section).stated:
            if each.text not in found:
                found[each.text] = each._replace(passage=number, factor=weight * each.factor)
    return list(found.values())


class Window(NamedTuple):
    """A window as it was read: on one line, its stems, and the sentences that may be quoted."""

    shown: str
    stems: frozenset[str]
    stated: tuple[Candidate, ...]


@lru_cache(maxsize=512)
def read_window(text: str, section: str) -> Window:
    """Read a window; the last ones are kept, as questions share windows and steps share both."""
    sentences = split_sentences(text, section)
    shown, texts = plain(text), [each.text for each in sentences]
    stated = []
    for place, (core, role) in enumerate(sentences):
        quote = whole(texts, place, shown)
        if not quote or not _states(core) or (quote != core and not _states(quote)):
            continue
        at, turn = place / max(1, len(sentences) - 1), _turn(texts, place, quote)
        factor = 1.0 if core[-1] in ".!)\"'”’" else CUT_WEIGHT
        stems = frozenset(named_terms(core))
        stated.append(Candidate(quote, core, role, 0, at, turn, stems, factor))
    return Window(shown, frozenset(named_terms(text)), tuple(stated))


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
        if text in shown:  # else a heading stands between
            fits = len(text) <= MAX_SENTENCE_CHARS and text.count(" ") < MAX_WORDS
            return text if fits else ""
    return ""


def _turn(sentences: Sequence[str], place: int, text: str) -> str:
    """The sentence that turns one round, where its quote ends with it, else ""."""
    after = sentences[place + 1] if place + 1 < len(sentences) else ""
    return after if after and text.endswith(after) else ""


@lru_cache(maxsize=8192)
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
    return states and not _LISTED.match(text) and not speaks_to_a_model(text)


def speaks_to_a_model(text: str) -> bool:
    """Whether a text holds an order to a model, or what a prompt is made of."""
    folded = text.casefold()
    needed = any(each in folded for each in _NEEDED)
    return needed and _TO_A_MODEL.search(text) is not None
