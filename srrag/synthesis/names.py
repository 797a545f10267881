"""Whether two names of interventions, outcomes or people mean one thing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from srrag.reading.outcome_kinds import named_terms

COVERED = 2 / 3
"""Share of an asked name's stems that a name has to hold."""
NEAR = 0.68
"""Cosine from which names mean one thing without a stem in common."""
Encode = Callable[[Sequence[str]], np.ndarray]
Built = Callable[[Sequence[str]], Mapping[str, np.ndarray]]
"""Finds the vectors of names that a build has encoded."""
_WORD = re.compile(r"[\w/+-]+")


class NameMatcher:
    """Compares names by stems, long forms, other names of their paper, and vectors.

    `long` are the long forms of abbreviations, `others` the other names of a name; `encode` makes
    unit-length vectors of names, None compares without; `built` finds those of some names.
    """

    def __init__(
        self,
        long: Mapping[str, str],
        others: Mapping[str, Iterable[str]],
        encode: Encode | None = None,
        built: Built | None = None,
    ) -> None:
        self._long, self._encode, self._built = long, encode, built
        self._others = {name.casefold(): tuple(each) for name, each in others.items()}
        self._vectors: dict[str, np.ndarray] = {}
        self.stems = lru_cache(maxsize=None)(self._stems)

    def _stems(self, name: str) -> tuple[frozenset[str], ...]:
        """The stems of a name and of each of its other names."""
        full = _WORD.sub(lambda word: self._long.get(word[0], word[0]), name)
        told = (name, full, *self._others.get(name.casefold(), ()))
        return tuple(dict.fromkeys(frozenset(named_terms(each)) for each in told if each))

    def means(self, asked: Iterable[str], names: Iterable[str]) -> bool:
        """Whether one of the names is one of those asked for, or of its kind."""
        names = [name for name in names if name]
        return any(
            covered(stems, held) >= COVERED
            for each in asked
            for stems in self.stems(each)
            for name in names
            for held in self.stems(name)
        ) or any(self._cosine(each, name) >= NEAR for each in asked for name in names)

    def holds(self, asked: str, texts: Iterable[str]) -> bool:
        """Whether one of the texts holds all stems of a name, or of another name for it."""
        told = [held for text in texts for held in self.stems(text)]
        return any(stems <= held for stems in self.stems(asked) for held in told)

    def holds_any(self, asked: Iterable[str], text: str) -> bool:
        """Whether a text holds all stems of one of the names."""
        return any(self.holds(each, [text]) for each in asked)

    def same(self, one: str, other: str) -> bool:
        """Whether two names have the same stems, or the same meaning by their vectors."""
        if {*self.stems(one)} & {*self.stems(other)}:
            return True
        return self._cosine(one, other) >= 0.85

    def _cosine(self, one: str, other: str) -> float:
        if self._encode is None:
            return 0.0
        missing = [name for name in (one, other) if name not in self._vectors]
        if missing:
            self._vectors.update(zip(missing, self._encode(missing), strict=True))
        return float(self._vectors[one] @ self._vectors[other])

    def learn(self, names: Iterable[str]) -> None:
        """Find or encode names at once, rather than each when it is compared."""
        if self._encode is None:
            return
        missing = [name for name in dict.fromkeys(names) if name and name not in self._vectors]
        if missing and self._built is not None:
            self._vectors.update(self._built(missing))
            missing = [name for name in missing if name not in self._vectors]
        if missing:
            self._vectors.update(zip(missing, self._encode(missing), strict=True))


def covered(asked: frozenset[str], held: frozenset[str]) -> float:
    """Share of the asked stems that are held."""
    return len(asked & held) / len(asked) if asked else 0.0
