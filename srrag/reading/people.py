"""Who a text speaks of, by rules: ages as ranges of years, sex, activity, animals, conditions."""

from __future__ import annotations

import re
from typing import NamedTuple

from srrag.algo.terms import terms
from srrag.reading.lexicon import alternatives, lexicon, words
from srrag.reading.numbers import NUMBER_WORDS

EVER = 200
RANGE = "range"
_AGES: tuple[tuple[str, int, int], ...] = (
    (r"infants?|neonates?|neonatal|newborns?", 0, 2),
    (r"toddlers?|pre-?school(?:ers|[- ]aged)?", 1, 6),
    (r"pre-?pubert?al|pre-?pubescent", 0, 12),
    (r"high[- ]school", 14, 19),
    (r"adolescents?|adolescence|teenagers?|teenaged?|teens", 10, 18),
    (r"pupils?|school-?(?:children|aged?)", 5, 18),
    (r"child(?:ren|hood)?|pa?ediatrics?|boys?|girls?", 0, 18),
    (r"youths?|young (?:people|persons|athletes)", 10, 25),
    (r"young adults?|(?:college|university|medical) students?", 17, 36),
    (r"middle-aged", 40, 65),
    (r"older (?:adults?|people|persons?|wom[ae]n|m[ae]n|patients?|individuals?)", 60, EVER),
    (r"elderly|geriatric|seniors", 60, EVER),
    (r"post-?menopausal", 50, EVER),
    (r"pregnan(?:t|cy)|post-?partum|childbirth|post-?natal", 12, 50),
    (r"adults?", 18, EVER),
)
"""Life stages in years [from, to), longer names before those that they hold.

Borders are drawn wide ("children" up to 18), since only ranges that do not touch contradict.
"""
_STAGES = "|".join(f"(?P<a{n}>{words})" for n, (words, _, _) in enumerate(_AGES))
_AGE_WORDS = re.compile(rf"(?<![\w-])(?:{_STAGES})(?![\w-])", re.IGNORECASE)
_YEAR = rf"\d{{1,3}}|{'|'.join(word for word in NUMBER_WORDS if '-' not in word)}"
_TO = r"\s{0,2}(?:-|–|to|and)\s{0,2}"
_PER_YEAR = {"hour": 8766, "day": 365, "week": 52, "month": 12}
_UNIT = rf"(?:[\s-]{{0,2}}(?P<unit>{'|'.join(_PER_YEAR)})s?\b)?"
_YEARS = re.compile(
    rf"\b(?:age[ds]?|ages)\s(?:between\s|from\s)?(?P<low>{_YEAR}){_TO}(?P<high>{_YEAR})\b{_UNIT}"
    rf"|\b(?P<low2>{_YEAR}){_TO}(?P<high2>{_YEAR})[\s-]years?[\s-](?:of\sage|olds?)\b"
    rf"|\b(?:aged?\s|people\s|adults\s|patients\s)(?:over|above|at\sleast)\s(?P<least>{_YEAR})\b"
    rf"{_UNIT.replace('unit', 'unit2')}"
    rf"|\b(?:aged?\s)?(?P<least2>{_YEAR})\syears?\s(?:(?:of\sage|old)\s)?(?:and|or)\s(?:older|over|above)\b"
    rf"|\b(?:aged?|people|children|patients)\s(?:under|below|younger\sthan)\s(?P<most>{_YEAR})\b"
    rf"{_UNIT.replace('unit', 'unit3')}"
    rf"|\b(?P<one>{_YEAR})[\s-]years?[\s-]olds?\b",
    re.IGNORECASE,
)
_TELLS_YEARS = re.compile(r"year|age[ds]?\s|(?:over|above|at\sleast|under|below|younger\sthan)\s")
"""Words in lower case, without one of which no age is told in years."""
_NOUN = re.compile(r"(?:\s(?!(?:in|with|of|and|or|for|to|who|is|are|were)\b)[a-z-]{3,20}){0,2}")
"""What follows "adolescent" or "adult" and says of whom."""
_SEXES = re.compile(
    r"(?<![\w-])(?:(?P<female>wom[ae]n|females?|girls?|mothers?|pregnan(?:t|cy)|post-?partum|"
    r"childbirth)|(?P<male>m[ae]n|males?|boys?))(?![\w-])",
    re.IGNORECASE,
)
_ACTIVITIES = re.compile(
    r"(?<![\w-])(?:(?P<athlete>athletes?|players?|footballers?|runners?|gymnasts?|swimmers?|"
    r"dancers?|professionals in sport)|(?P<sedentary>sedentary|physically inactive|inactive|"
    r"untrained|office workers?))(?![\w-])",
    re.IGNORECASE,
)


class Trait(NamedTuple):
    """A phrase that says whom a text is about: what of them, and as what.

    `low` and `high` are the range of an age in years, else 0; the name of an age is RANGE if it
    is told by two numbers, else "".
    """

    kind: str
    phrase: str
    name: str = ""
    low: int = 0
    high: int = 0


def traits(text: str) -> list[Trait]:
    """All traits that a text names, in any order."""
    return [trait for kind in _KINDS for trait in _traits(kind, text)]


_KINDS = ("age", "sex", "activity", "species")


def _traits(kind: str, text: str) -> list[Trait]:
    """The traits of a kind that a text names."""
    if kind == "age":
        return [_age(match) for match in _AGE_WORDS.finditer(text)] + _told_in_years(text)
    if kind == "species":
        # PIG is no animal.
        animals = [m[0] for m in lexicon("animal").finditer(text) if not m[0].isupper()]
        people = [Trait(kind, m[0], "human") for m in lexicon("person").finditer(text)]
        return people + [Trait(kind, name, "animal") for name in animals]
    pattern = _SEXES if kind == "sex" else _ACTIVITIES
    return [Trait(kind, _phrase(m), str(m.lastgroup)) for m in pattern.finditer(text)]


def _told_in_years(text: str) -> list[Trait]:
    """Ages in numbers; a look for the words around them costs little."""
    if not _TELLS_YEARS.search(text.lower()):
        return []
    return [age for match in _YEARS.finditer(text) if (age := _years(match))]


def contradiction(asked: list[Trait], title: str, text: str) -> Trait | None:
    """The first trait of a document that nothing asked for allows, None if there is none.

    A document contradicts a question on a trait if its title says whom it is about, or its text
    does with a range of ages, and neither names anything that overlaps with what is asked. A trait
    that only one side names is no contradiction, except that a question is always about people,
    never about animals. The text is read only for the traits that decide.
    """
    leading = traits(title)
    for kind in ("species", "age", "sex", "activity"):
        wanted = [each for each in asked if each.kind == kind]
        if kind == "species" and not wanted:
            wanted = [Trait("species", "", "human")]
        leads = [each for each in leading if each.kind == kind]
        if not wanted or _any_meet(wanted, leads):
            continue
        if kind == "age" and not leads:
            leads = [each for each in _told_in_years(text) if each.name == RANGE]
        if leads and not _any_meet(wanted, _traits(kind, text)):
            return leads[0]
    return None


def meet(kind: str, asked: str, told: str) -> bool | None:
    """Whether what two texts tell of a trait can hold of one person; None if either is silent."""
    both = _traits(kind, asked), _traits(kind, told)
    return _any_meet(*both) if all(both) else None


def _any_meet(asked: list[Trait], told: list[Trait]) -> bool:
    return any(_meet(a, b) for a in asked for b in told)


def _meet(a: Trait, b: Trait) -> bool:
    """Whether two traits of a kind can hold of one person."""
    if a.kind == "age":
        return a.low < b.high and b.low < a.high
    return a.name == b.name


def _age(match: re.Match[str]) -> Trait:
    _, low, high = _AGES[int(str(match.lastgroup)[1:])]
    return Trait("age", _phrase(match), "", low, high)


def _phrase(match: re.Match[str]) -> str:
    """What matched, with the noun that it goes with where it is none itself."""
    noun = None if match[0].endswith(("s", "n")) else _NOUN.match(match.string, match.end())
    return match[0] + (noun[0] if noun else "")


def _years(match: re.Match[str]) -> Trait | None:
    told = {name.rstrip("23"): text.casefold() for name, text in match.groupdict().items() if text}
    per_year = _PER_YEAR.get(told.pop("unit", ""), 1)
    said = {
        name: int(text) if text.isdigit() else NUMBER_WORDS[text] for name, text in told.items()
    }
    if "one" in said:
        low, high = said["one"], said["one"] + 1
    else:
        low = said.get("low", said.get("least", 0)) // per_year
        most = said["high"] + 1 if "high" in said else said.get("most")
        high = EVER if most is None else -(-most // per_year)
    name = RANGE if "high" in said else ""
    return Trait("age", match[0], name, low, high) if low < high else None


LOOSE = frozenset(terms(" ".join(words("shared"))))
"""Words that many conditions share, so that they tell none from another."""
_BREAK = alternatives("name_ends")
_CONDITION = re.compile(
    rf"(?<![\w-])(?:(?!(?:{_BREAK})\b)[a-z][\w-]{{0,30}}\s){{0,4}}"
    r"(?:pain|sprains?|strains?|tears?|ruptures?|fractures?|injur(?:y|ies)|syndromes?|disorders?|"
    r"diseases?|disabilit(?:y|ies)|instability|impingement|whiplash|stroke|cancer|diabetes|"
    r"failure|(?!(?:diagnosis|prognosis|aroma|diploma|academia)\b)"
    r"[a-z]{2,30}(?:itis|osis|opathy|alg?ia|emia|oma|trophy|paresis|plegia))\b",
    re.IGNORECASE,
)
_AMONG = re.compile(r"\b(?:in|among|for)\s+", re.IGNORECASE)


def conditions_in(text: str) -> list[str]:
    """Phrases that name a condition with a word that tells it from others."""
    return [name for m in _CONDITION.finditer(text) if {*terms(name := m[0].strip())} - LOOSE]


def asked_people(question: str) -> str:
    """The last words of a question that say in whom ("in infants with diarrhea"), "" for none."""
    for found in reversed([*_AMONG.finditer(question)]):
        whom = question[found.end() :]
        if lexicon("person").search(whom) or traits(whom) or conditions_in(whom):
            return whom
    return ""
