"""Which parts of a question texts and the cited papers hold, by the rule of the answer gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from srrag.algo.terms import terms
from srrag.answer.clinical.asked import PARTS, AskedQuestion, Part
from srrag.answer.clinical.paper import CitedPaper
from srrag.answer.gate.answerable import packaged_model
from srrag.answer.gate.coverage import TextSource, held
from srrag.reading.people import contradiction, traits

NEARLY_ALL = 0.99


@dataclass(frozen=True)
class HeldWords:
    """The share (0…1) of a part's weight that a text holds, and the words that it lacks."""

    share: float
    lacking: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether all of it is there."""
        return self.share >= NEARLY_ALL


def held_words(wanted: str, texts: Sequence[str]) -> list[HeldWords]:
    """For each text, how much of the wanted words it holds; all of them where none is wanted.

    Words weigh by their rarity in medical texts, squared; where all are general, each alike.
    """
    sources = [TextSource(str(n), (text,)) for n, text in enumerate(texts)]
    found = held(wanted, sources, packaged_model().frequencies)
    if not found.words or not texts:
        return [HeldWords(1.0, ())] * len(texts)
    mass = found.weights**2 if found.weights.any() else np.ones(len(found.words))
    mass = mass / mass.sum()
    return [
        HeldWords(
            float(row @ mass),
            tuple(w for w, m, has in zip(found.words, mass, row, strict=True) if m > 0 and not has),
        )
        for row in found.inside
    ]


def names_something(wanted: str) -> bool:
    """Whether a part has a content word at all."""
    return bool(terms(wanted))


State = Literal["yes", "partly", "no", "other", "not_asked"]
LEAST_PARTLY = 0.3


@dataclass(frozen=True)
class PartMatch:
    """A part of the question, its words, and whether a cited paper holds them.

    `other` says what the cited papers are about instead, `lacking` which words none of them holds,
    and `numbers` are the papers that hold the part.
    """

    part: Part
    name: str
    asked: str
    state: State
    lacking: tuple[str, ...] = ()
    other: str = ""
    numbers: tuple[int, ...] = ()


def part_matches(asked: AskedQuestion, papers: Sequence[CitedPaper]) -> list[PartMatch]:
    """A match for each part; the best of the cited papers counts."""
    cited = [paper for paper in papers if paper.cited]
    return [_match(asked, part, name, cited) for part, name in PARTS.items()]


def _match(asked: AskedQuestion, part: Part, name: str, cited: Sequence[CitedPaper]) -> PartMatch:
    words = asked.part(part)
    if not names_something(words):
        return PartMatch(part, name, words, "not_asked")
    if not cited:
        return PartMatch(part, name, words, "no")
    others = [other_people(asked, paper) if part == "P" else "" for paper in cited]
    if all(others):
        return PartMatch(part, name, words, "other", other=others[0])
    fitting = [paper for paper, other in zip(cited, others, strict=True) if not other]
    held = held_words(words, [paper.text for paper in fitting])
    best = max(held, key=lambda each: each.share)
    numbers = tuple(p.number for p, h in zip(fitting, held, strict=True) if h.whole)
    lacking = () if best.whole else best.lacking
    if best.whole:
        state: State = "yes"
    else:
        state = "partly" if best.share >= LEAST_PARTLY else "no"
    return PartMatch(part, name, words, state, lacking, numbers=numbers)


def other_people(asked: AskedQuestion, paper: CitedPaper) -> str:
    """Whom a paper is about where that cannot be who was asked about, "" where it can."""
    found = contradiction(traits(asked.text), paper.title, paper.text)
    return found.phrase if found else ""
