"""Kinds of outcome that questions and papers call by different words: "safe" and "adverse events".

The lists are the authors'. Words are of one kind if a sentence with one of them speaks of what a
question with another asks; whether it says that there is more or less of it is another matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from srrag.algo.terms import terms
from srrag.reading.lexicon import lexicon

_FAMILIES = ("vitamin", "hepatitis", "factor", "influenza", "omega", "coenzyme")
_LETTER = r"(?:[A-Z]{1,2}\d{0,2}|\d{1,2}|[b-ek])"
LETTERED = re.compile(
    rf"\b((?i:{'|'.join(_FAMILIES)}))s?[ -]"
    rf"({_LETTER}(?:(?:,? and |,? or |, |/| & ){_LETTER})*)\b"
)
"""Such a name, or several of one family."""
_HEPATITIS = re.compile(r"H(?<!\wH)([A-E])V\b")
"""Begins with its letter, not with a border, as a search for a letter is many times as fast."""


def lettered(text: str) -> dict[str, str]:
    """Names such as vitamin D, each as one stem with its words: "vitamin C" does not hold it."""
    names = {}
    told = text.lower()
    for found in LETTERED.finditer(text) if any(each in told for each in _FAMILIES) else ():
        for letter in re.findall(rf"\b{_LETTER}\b", found[2]):
            names[_lettered(found[1], letter)] = f"{found[1]} {letter}"
    return names | {_lettered("hepatitis", m[1]): m[0] for m in _HEPATITIS.finditer(text)}


def _lettered(family: str, letter: str) -> str:
    return f"{terms(family)[0]} {letter.casefold()}"


KINDS = {
    "harm": "harm harmful harmless safe safely safety unsafe danger dangerous adverse complication "
    "toxic toxicity tolerated tolerable tolerability",
    "death": "death dead die dies died dying mortality survive survival fatal fatality",
    "cost": "cost costly expensive expense expenditure economic price cheap cheaper",
    "recurrence": "recurrence recurrent recur relapse reinjury",
    "hospital": "admission admitted readmission readmitted hospitalisation hospitalization "
    "hospitalised hospitalized rehospitalisation rehospitalization",
}
"""The words of each kind, itself among them."""
_PAIRS = {"side effects": "harm", "unwanted effects": "harm", "life expectancy": "death"}
_KIND = {stem: kind for kind, words in KINDS.items() for stem in terms(words)}
_PAIR = {tuple(terms(words)): kind for words, kind in _PAIRS.items()}
ADVERSE_EVENT = lexicon("adverse_event")
"""Events that a paper on harm may name without a word for harm."""
NAMES = frozenset(_KIND.values())
TO_BE_SAID = frozenset({"harm", "death", "cost", "hospital"})
"""Kinds without a word of which no quote answers a question on them."""


def kinds_of(stems: Iterable[str]) -> frozenset[str]:
    """The kinds of outcome that stems name."""
    return frozenset(_KIND[stem] for stem in stems if stem in _KIND)


def named_terms(text: str) -> list[str]:
    """Stems of the content words of a text, in order, those of a kind replaced by its name.

    Behind them stand names such as "vitamin d" (`lettered`).
    """
    stems = terms(text)
    paired = [_PAIR[pair] for pair in pairwise(stems) if pair in _PAIR]
    return [*(_KIND.get(stem, stem) for stem in stems), *paired, *lettered(text)]
