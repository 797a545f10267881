"""Which numbers of a text no source holds, however they are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from srrag.reading.prose import sentence_spans

_NAMED = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
SMALL = _NAMED.split()
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
NUMBER_WORDS = {
    **{word: number for number, word in enumerate(SMALL)},
    **{word: 10 * number for number, word in enumerate(TENS, start=2)},
    **{
        f"{tens}-{ones}": 10 * number + unit
        for number, tens in enumerate(TENS, start=2)
        for unit, ones in enumerate(SMALL[1:10], start=1)
    },
}


_SIGNS = str.maketrans(dict.fromkeys("·∙⋅‧٫", ".") | dict.fromkeys("‐‑‒–—−", "-"))
_BLANK = "[ \u00a0\u2009\u202f]"

# Digits of names: D3, HbA1c, SF-36, EQ-5D, 6MWT, 3D, "6-minute walk test", "1-repetition maximum".
# "4000IU" and "20MG" are doses.
_NAMES = re.compile(
    r"\b\w*[^\W\d_]\d[\w.]*\w|\b\w*[^\W\d_]\d|\b(?=[\w-]*[A-Z])\w*[^\W\d_]-\d+\w*(?!\.\d)\b"
    r"|\b\d+(?:(?!(?:IU|MC?G|ML|KG)\b)[A-Z]{2}|D\b)"
    r"|\b(?:\d+|[a-z]+)-(?:min(?:ute)?|s(?:ec(?:ond)?)?|m(?:et(?:er|re))?|item|point|foot|step|rep(?:etition)?)"
    r"s?[ -](?:[\w-]+ ){0,3}?(?:[Tt]est|[Ss]cale|[Qq]uestionnaire|[Ii]ndex|[Ii]nventory|[Ss]urvey"
    r"|[Ff]orm|[Ww]alk\w*|maxim\w+)\b"
)
_OTHER_NAMES = re.compile(r"\b[a-z]+-\d+\w*")
"""omega-3, interleukin-6; but sources may say "mid-2019" and "pre-12 weeks"."""

_DIGITS = re.compile(
    rf"\d+(?:(?:[.,]|['’](?=\d{{3}})|{_BLANK}(?=\d{{3}}(?!\d)))\d+)*|(?<![\w.])\.\d+"
)
_GROUPED = re.compile(r"\d{1,3}(?:(?P<sign>\D)\d{3})(?:(?P=sign)\d{3})*")
_TENS = rf"(?:{'|'.join(TENS)})(?:[- ](?:{'|'.join(SMALL[1:10])}))?"
_SMALL = rf"(?:{_TENS}|{'|'.join(sorted(SMALL, key=len, reverse=True))})"
_WORDS = re.compile(
    rf"\b(?:(?P<many>an?|{_SMALL})[ -](?P<power>hundred|thousand)"
    rf"(?:[ -](?:and[ -])?(?P<rest>{_SMALL}))?"
    rf"|(?P<small>{_SMALL}))\b",
    re.IGNORECASE,
)
_POWERS = {"hundred": 100, "thousand": 1000}
_AND_A_HALF = re.compile(rf"{_BLANK}?(?:½| and a half\b)")
_ROMAN = re.compile(
    r"\b(?:[Tt]ype|[Gg]rade|[Ss]tage|[Pp]hase|[Cc]lass|[Ll]evel|[Cc]ategory|[Tt]yp|[Tt]ipo|[Gg]rado)"
    r"[ -](?P<roman>[IVX]{1,5}|[ivx]{1,5})\b"
)
_ANY_ROMAN = re.compile(r"\b(?P<roman>[IVX]{1,5})\b")
_FRACTION = re.compile(
    r"[½¼¾⅓⅔]|\b(?:(?P<num>\w+)[- ])?(?P<part>halves|half|halved|thirds?|quarters?|fifths?)\b", re.I
)
_PARTS = {"½": (1, 2), "¼": (1, 4), "¾": (3, 4), "⅓": (1, 3), "⅔": (2, 3),
          "hal": (1, 2), "thi": (1, 3), "qua": (1, 4), "fif": (1, 5)}  # fmt: skip
_OTHER_WORDS = {
    **{word: n for n, word in enumerate(
        ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"), 1)},
    "once": 1, "single": 1, "twice": 2, "double": 2, "doubled": 2, "both": 2, "triple": 3,
    "tripled": 3, "thrice": 3, "dozen": 12,
}  # fmt: skip
_WORD = re.compile(r"[^\W\d_]+")
_FOLD = re.compile(r"\b([a-z]+)-?fold\b", re.IGNORECASE)
_UNIT = re.compile(
    rf"(?:-|{_BLANK})?(?:(?:full|whole|consecutive|more|further)[ -])?"
    r"(?:(?P<time>hour|day|week|month|year)s?|per ?cent|%|points?|times|sessions?|fold)\b|\s?%",
    re.IGNORECASE,
)
_A_TIME = re.compile(r"\b(?:an?|one|per|every|each)[ -](?P<time>hour|day|week|month|year)\b", re.I)
_DAYS = {"hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 365.25 / 12, "year": 365.25}
_SAME_TIME = 0.01
"""Relative: 52 weeks are a year, 12 weeks are not three months."""
_FEW = 10
"""Up to here a word may count what the writer sees ("two trials agree"); above, it is a finding."""


class Number(NamedTuple):
    """A number in a text: as written, the values of each way to read it, and days if it is a time.

    `counts` is True for a small number in words without a unit.
    """

    written: str
    readings: tuple[tuple[Decimal, ...], ...]
    days: float | None = None
    counts: bool = False


def lost_numbers(text: str, sources: Iterable[str]) -> list[str]:
    """Return the numbers of a text, as written, whose value no source holds.

    Compared are values: "twelve" is 12, "type II" type 2, ".02" 0.02, "1·8" and "1,8" 1.8, "5.0" 5,
    "half" 50 %, "52 weeks" a year. Digits of a name (D3, SF-36, 6-minute walk test) are no numbers,
    and neither are words up to ten without a unit: they may count what the writer sees. Signs and
    units are not compared. Linear in the number of characters.
    """
    values: set[Decimal] = set()
    days: list[float] = []
    for source in sources:
        held = _held(source)
        values |= held[0]
        days += held[1]
    lost = []
    for number in _numbers(_bare(text, (_NAMES, _OTHER_NAMES))):
        told = any(values.issuperset(reading) for reading in number.readings)
        if not (told or number.counts or _same_time(number.days, days)):
            lost.append(number.written)
    return list(dict.fromkeys(lost))


def told_numbers(texts: Iterable[str], sources: Sequence[str]) -> list[str]:
    """Return each text once, without the sentences that hold a number which no source holds."""
    kept = (
        " ".join(
            text[low:high]
            for low, high in sentence_spans(text)
            if not lost_numbers(text[low:high], sources)
        )
        for text in texts
    )
    return [*dict.fromkeys(filter(None, kept))]


def _same_time(days: float | None, held: Iterable[float]) -> bool:
    return days is not None and any(abs(days - other) <= _SAME_TIME * other for other in held)


@lru_cache(maxsize=512)
def _held(source: str) -> tuple[frozenset[Decimal], tuple[float, ...]]:
    """Return all values that a source may mean, and its times in days."""
    text = _bare(source, (_NAMES,))
    found = [*_numbers(text), *_beside(text)]
    values = {value for number in found for reading in number.readings for value in reading}
    days = tuple(number.days for number in found if number.days is not None)
    return frozenset(values), days


def _bare(text: str, names: Iterable[re.Pattern[str]]) -> str:
    """Return a text with plain signs and without the digits of names; every offset stays."""
    text = text.translate(_SIGNS)
    for pattern in names:
        text = pattern.sub(lambda name: "_" * len(name[0]), text)
    return text


def _numbers(text: str) -> Iterator[Number]:
    """Yield the numbers in digits, in words, and in roman numerals behind "type" and the like."""
    for found in _DIGITS.finditer(text):
        readings = _readings(found[0])
        half = _AND_A_HALF.match(text, found.end())
        if half:
            readings = ((readings[0][0] + Decimal("0.5"),),)
        yield _number(text, found[0], readings, half.end() if half else found.end())
    for found in _WORDS.finditer(text):
        value = Decimal(_word_value(found))
        half = _AND_A_HALF.match(text, found.end())
        end = half.end() if half else found.end()
        number = _number(text, found[0], ((value + Decimal("0.5") if half else value,),), end)
        few = value <= _FEW and not _UNIT.match(text, end)
        yield number._replace(counts=few)
    for found in _ROMAN.finditer(text):
        yield Number(found[0], ((Decimal(_roman(found["roman"])),),))


def _number(text: str, written: str, readings: tuple[tuple[Decimal, ...], ...], end: int) -> Number:
    unit = _UNIT.match(text, end)
    time = unit["time"] if unit else None
    days = float(readings[0][0]) * _DAYS[time.lower()] if time else None
    return Number(written, readings, days)


def _readings(written: str) -> tuple[tuple[Decimal, ...], ...]:
    """Return the values that digits may stand for: "1,200" is 1200 or 1.2, "1,2" 1.2 or 1 and 2."""
    if written[0] == ".":
        written = f"0{written}"
    whole, sign, rest = [*re.split(r"(\D)(?=\d+$)", written), "", ""][:3]
    parts = tuple(Decimal(part) for part in re.findall(r"\d+", written))
    found = []
    if _GROUPED.fullmatch(written) and written[0] != "0":
        found.append((Decimal(re.sub(r"\D", "", written)),))
    if sign in (".", ",") and (whole.isdigit() or _GROUPED.fullmatch(whole)):
        found.append((Decimal(f"{re.sub(r'[^0-9]', '', whole)}.{rest}"),))
    return (*found, parts) if sign != "." or not found else tuple(found)


def _word_value(found: re.Match[str]) -> int:
    if found["small"]:
        return _small(found["small"])
    rest = _small(found["rest"]) if found["rest"] else 0
    return _small(found["many"]) * _POWERS[found["power"].lower()] + rest


def _small(word: str) -> int:
    word = word.lower().replace(" ", "-")
    return 1 if word in ("a", "an") else NUMBER_WORDS[word]


def _roman(letters: str) -> int:
    values = [{"i": 1, "v": 5, "x": 10}[letter] for letter in letters.lower()]
    following = [*values[1:], 0]
    return sum(
        -value if value < after else value for value, after in zip(values, following, strict=True)
    )


def _beside(text: str) -> Iterator[Number]:
    """Yield what a source says without writing a number: a year, half, twofold, second."""
    for found in _A_TIME.finditer(text):
        yield Number(found[0], ((Decimal(1),),), _DAYS[found["time"].lower()])
    for found in _FRACTION.finditer(text):
        top, bottom = _PARTS[(found["part"] or found[0])[:3].lower()]
        many = NUMBER_WORDS.get((found["num"] or "").lower(), 1) * top
        shares = (Decimal(many) / bottom, Decimal(100 * many) / bottom)
        rounded = {
            share.quantize(Decimal(place)) for share in shares for place in ("1", "0.1", "0.01")
        }
        yield Number(found[0], (tuple({*shares, *rounded, Decimal(bottom)}),))
    for found in _WORD.finditer(text):
        if (value := _OTHER_WORDS.get(found[0].lower())) is not None:
            yield Number(found[0], ((Decimal(value),),))
    for found in _FOLD.finditer(text):
        if found[1].lower() in NUMBER_WORDS:
            yield Number(found[0], ((Decimal(NUMBER_WORDS[found[1].lower()]),),))
    for found in _ANY_ROMAN.finditer(text):
        yield Number(found[0], ((Decimal(_roman(found["roman"])),),))
