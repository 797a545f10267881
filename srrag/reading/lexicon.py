"""The words by which English is read, from `lexicon.tsv`: pattern, class, where it came from; and
kinds of outcome that questions and papers call by different words: "safe" and "adverse events".

The lists of kinds are the authors'. Words are of one kind if a sentence with one of them speaks of
what a question with another asks; whether there is more or less of it is another matter.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from itertools import pairwise

from srrag.algo.terms import terms


@cache
def lexicon(*classes: str) -> re.Pattern[str]:
    """Return a pattern of the whole words of these classes; a match's `lastgroup` is its class."""
    return re.compile(
        "|".join(rf"(?P<{name}>(?<![\w-])(?:{alternatives(name)})(?![\w-]))" for name in classes),
        re.IGNORECASE,
    )


def alternatives(*classes: str) -> str:
    """Return the patterns of these classes as one alternation, to stand within another pattern."""
    return "|".join(row["pattern"] for row in _rows() if row["class"] in classes)


def words(name: str) -> frozenset[str]:
    """Return the words of a class whose patterns are plain words."""
    return frozenset(alternatives(name).split("|"))


@cache
def _rows() -> list[dict[str, str]]:
    told = files("srrag.reading").joinpath("lexicon.tsv").read_text("utf-8").splitlines()
    return [*csv.DictReader(told, delimiter="\t", quoting=csv.QUOTE_NONE)]


_BOUNDS = {
    r"\s*": r"\s{0,3}",
    r"\s+": r"\s{1,3}",
    r"[\s-]*": r"[\s-]{0,3}",
    r"[\s-]+": r"[\s-]{1,3}",
    r"[a-z-]+": r"[a-z-]{1,30}",
    r"[a-z0-9-]+": r"[a-z0-9-]{1,30}",
    r"[\d,]*": r"[\d,]{0,11}",
    r"[\d.,]*": r"[\d.,]{0,11}",
    r"\d+": r"\d{1,9}",
    r"\w+": r"\w{1,30}",
    r"\w*": r"\w{0,30}",
}


def bounded(source: str) -> re.Pattern[str]:
    """Compile a pattern with an upper bound on every open-ended repetition.

    Two adjacent open repetitions make a failing search quadratic in a run of blanks or digits.
    Raises ValueError if a repetition has no bound.
    """
    for wide, narrow in _BOUNDS.items():
        source = source.replace(wide, narrow)
    if left := re.search(r"(?<!\\)[\w\])][*+]", source):
        raise ValueError(f"unbounded repetition {left.group()!r} in {source!r}")
    return re.compile(source)


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
