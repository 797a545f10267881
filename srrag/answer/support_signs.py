"""Signs that a window supports a sentence, or does not: numbers that rules and vectors count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from srrag.answer.populations import Trait, traits
from srrag.answer.sentences import plain, split_sentences
from srrag.answer.statements import (
    OPPOSITES,
    Cue,
    Effect,
    content,
    effects,
    negated,
    num_negations,
    numbers,
)

_MADE_OF = 0.5
"""Share of a window's sentence that a sentence made of it has in common with it."""

Floats = npt.NDArray[np.float32]


class Signs(NamedTuple):
    """Of a sentence and a window; shares and cosines in [0, 1], flags 0 or 1.

    `coverage`: share of the sentence's content words that the window, its title or section hold;
    `closest`: that its title and one sentence hold. `similarity`: highest cosine with a sentence
    of the window, or its title. `missing_numbers`: share of the sentence's numbers that are
    nowhere in the window; `stray_numbers`: the same for numbers that stand there beside other
    words. `opposed`: how much closer the words around an effect stand to an opposite effect than
    to the same one. `unstated`: share of the sentence's effects that the window has nowhere;
    `agreed`: the least overlap of an effect's words with those of the same effect there, 1 without
    effects. `own`: share of the words beyond title and section that the best sentence holds.
    `negation`: words that one side negates and the other only affirms, as a share; `turned`: more
    or fewer negations than in the sentences of the window that it is made of. `population`: ages,
    sexes or species that cannot be the window's; `unnamed`: those that it does not speak of.
    """

    coverage: float
    closest: float
    similarity: float
    missing_numbers: float
    stray_numbers: float
    opposed: float
    unstated: float
    agreed: float
    own: float
    negation: float
    turned: float
    population: float
    unnamed: float


@dataclass(frozen=True)
class Window:
    """A piece of evidence as the gate reads it."""

    title: str
    section: str
    text: str

    @cached_property
    def shown(self) -> str:
        """Its text on one line, as sentences are quoted from it."""
        return plain(self.text)

    @cached_property
    def sentences(self) -> list[str]:
        """Its sentences, its title where it has none."""
        return [each.text for each in split_sentences(self.text, self.section)] or [self.title]

    @cached_property
    def stretches(self) -> list[str]:
        """What a sentence is compared with: each sentence, and the title."""
        return [*self.sentences, self.title] if self.title else self.sentences

    @cached_property
    def around(self) -> frozenset[str]:
        """Content words of title and section."""
        return content(self.title) | content(self.section)

    @cached_property
    def held(self) -> list[frozenset[str]]:
        """Content words of each sentence."""
        return [content(each) for each in self.sentences]

    @cached_property
    def effects(self) -> list[Cue]:
        """The effects that it and its title state."""
        return [cue for each in (*self.sentences, self.title) for cue in effects(each)]

    @cached_property
    def numbers(self) -> list[Cue]:
        """Its numbers."""
        return [cue for each in (*self.sentences, self.title) for cue in numbers(each)]

    @cached_property
    def negations(self) -> tuple[frozenset[str], frozenset[str]]:
        """Words that it negates, and words that it also affirms."""
        turned = [negated(each) for each in self.sentences]
        affirmed = [held - no for held, no in zip(self.held, turned, strict=True)]
        return frozenset().union(*turned), frozenset().union(*affirmed)

    @cached_property
    def traits(self) -> list[Trait]:
        """Whom it speaks of."""
        return [*traits(self.title), *traits(self.text)]


def signs(sentence: str, window: Window, similarity: float) -> Signs:
    """The signs of a sentence and a window, given the cosine of their nearest stretches."""
    words = content(sentence)
    within = window.around.union(*window.held)
    best = max((len(words & (held | window.around)) for held in window.held), default=0)
    missing, stray = _numbers(numbers(sentence), window.numbers)
    beyond = words - window.around
    own = max((len(beyond & held) for held in window.held), default=0)
    opposed, unstated, agreed = _effects(effects(sentence), window.effects)
    population, unnamed = _population(traits(sentence), window.traits)
    return Signs(
        len(words & within) / len(words) if words else 1.0,
        best / len(words) if words else 1.0,
        similarity,
        missing,
        stray,
        opposed,
        unstated,
        agreed,
        own / len(beyond) if beyond else 1.0,
        _negation(words, negated(sentence), *window.negations),
        _turned(sentence, words, window),
        population,
        unnamed,
    )


def measures(found: Signs) -> dict[str, float]:
    """The inputs of the fit: the signs, and some of them again, multiplied by how near the words
    are.

    `near` is how close the sentence comes to the words of one of the window's, from .6 to all. The
    last inputs let low cosines and low shares of words weigh differently.
    """
    near = min(1.0, max(0.0, (found.closest - 0.6) / 0.4))
    doubled = ("opposed", "unstated", "agreed", "negation", "turned")
    return {
        **found._asdict(),
        "near": near,
        **{f"near_{name}": near * getattr(found, name) for name in doubled},
        "unlike": max(0.0, 0.5 - found.similarity),
        "less_alike": max(0.0, 0.7 - found.similarity),
        "little_own": max(0.0, 0.4 - found.own),
        "little_covered": max(0.0, 0.5 - found.coverage),
        "alike_own": found.similarity * found.own,
        "alike_agreed": found.similarity * found.agreed,
    }


def verbatim(sentence: str, window: Window) -> bool:
    """Whether the window holds the sentence word for word; an ellipsis ends a quote early."""
    said = plain(sentence).rstrip("… ")
    return bool(said) and said in window.shown


def nearest(sentence: Floats, stretches: Floats) -> float:
    """The highest cosine of unit vectors (dim,) and (n, dim), at least 0."""
    return float(max(0.0, (stretches @ sentence).max(initial=0.0)))


def _numbers(said: Sequence[Cue], given: Sequence[Cue]) -> tuple[float, float]:
    if not said:
        return 0.0, 0.0
    known: dict[str, list[frozenset[str]]] = {}
    for cue in given:
        known.setdefault(cue.value, []).append(cue.around)
    missing = stray = 0.0
    for cue in said:
        places = known.get(cue.value, [])
        missing += not places
        stray += 1.0 - max((_overlap(cue.around, around) for around in places), default=0.0)
    return missing / len(said), stray / len(said)


def _effects(said: Sequence[Cue], given: Sequence[Cue]) -> tuple[float, float, float]:
    opposed = unstated = 0.0
    agreed = 1.0
    for cue in said:
        same = [_overlap(cue.around, g.around) for g in given if g.value == cue.value]
        against = OPPOSITES[cast(Effect, cue.value)]
        other = [_overlap(cue.around, g.around) for g in given if g.value in against]
        opposed = max(opposed, max(other, default=0.0) - max(same, default=0.0))
        agreed = min(agreed, max(same, default=0.0))
        unstated += not same
    return opposed, unstated / len(said) if said else 0.0, agreed


def _negation(
    words: frozenset[str], no: frozenset[str], turned: frozenset[str], affirmed: frozenset[str]
) -> float:
    """Share of the shared words that are negated on one side alone."""
    shared = words & (turned | affirmed)
    if not shared:
        return 0.0
    wrong = (no & shared) - turned | ((shared - no) - affirmed)
    return len(wrong) / len(shared)


def _turned(sentence: str, words: frozenset[str], window: Window) -> float:
    """Whether it has more or fewer negations than the sentences of the window that it holds."""
    held = [
        text
        for text, stems in zip(window.sentences, window.held, strict=True)
        if stems and len(stems & words) >= _MADE_OF * len(stems)
    ]
    return float(bool(held) and num_negations(sentence) != sum(map(num_negations, held)))


def _population(said: Sequence[Trait], given: Sequence[Trait]) -> tuple[float, float]:
    conflict = unnamed = 0.0
    for each in said:
        told = [trait for trait in given if trait.kind == each.kind]
        if each.kind == "species" and each.name == "human":
            continue
        if not told:
            unnamed = 1.0
        elif not any(_meet(each, trait) for trait in told):
            conflict = 1.0
    return conflict, unnamed


def _meet(a: Trait, b: Trait) -> bool:
    if a.kind == "age":
        return a.low < b.high and b.low < a.high
    return a.name == b.name


def _overlap(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a) if a else 0.5
