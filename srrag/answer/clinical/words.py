"""How much of the words of a part of a question a text holds, by the rule of the answer gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from srrag.algo.terms import terms
from srrag.answer.gate.answerable import packaged_model
from srrag.answer.gate.coverage import TextSource, held

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
    sources = [TextSource(str(n), text) for n, text in enumerate(texts)]
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
