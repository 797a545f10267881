"""Names that a letter or a number tells from each other: vitamin D, vitamins C and E, omega-3."""

from __future__ import annotations

import re

from srrag.algo.terms import terms

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
