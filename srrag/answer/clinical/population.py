"""Whom a paper is about, in its own words, and how many took part, where it says so."""

from __future__ import annotations

import re

from srrag.algo.number_words import NUMBER_WORDS
from srrag.answer.clinical.paper import CitedPaper
from srrag.answer.gate.mismatch import conditions_in
from srrag.reading.lexicon import alternatives

MAX_CHARS = 90
_PERSON = rf"(?:{alternatives('person', 'animal', 'grouped')})"
_OF_TITLE = re.compile(
    rf"(?:(?<=^)|(?<=\bin )|(?<=\bamong )|(?<=\bfor )|(?<=\bof )|(?<=\bby )|(?<=\bto )"
    rf"|(?<=\bon )|(?<=\bDo )|(?<=\bShould )|(?<=\bCan ))"
    r"((?:(?!(?:in|of|on|for|and|the|a|an|with|by|to|among|does|do|is|are|can)\b)"
    rf"[\w’'/-]+ ){{0,4}}{_PERSON}\b"
    rf"(?: (?:with|living|at risk|undergoing|following|after|who|aged|and {_PERSON})\b"
    r"[^:,;.?–(]*)?)",
    re.IGNORECASE,
)
_COUNT = rf"(?P<n>\d[\d,]*|{'|'.join(sorted(NUMBER_WORDS, key=len, reverse=True))})"
_ENROLLED = re.compile(
    rf"\b{_COUNT}\s(?:[\w-]+\s){{0,4}}?{_PERSON}(?:\s\([^)]{{0,60}}\))?\s(?:[\w-]+\s){{0,3}}?"
    r"(?:randomi[sz]ed|enrolled|recruited|included|participated|allocated|assigned|took part"
    r"|completed)\b|\b(?:randomi[sz]ed|enrolled|recruited|included)\s"
    rf"(?P<n2>\d[\d,]*)\s(?:[\w-]+\s){{0,4}}?{_PERSON}\b",
    re.IGNORECASE,
)


def population(paper: CitedPaper) -> str:
    """The words of a title that say whom the paper is about, "" if it does not."""
    title = " ".join(paper.title.split())
    found = [match[1].strip() for match in _OF_TITLE.finditer(title)]
    named = max(found, key=len, default="") or next(iter(conditions_in(title)), "")
    return named if len(named) <= MAX_CHARS else ""


def enrolled(paper: CitedPaper) -> str:
    """The number of people that a sentence says were enrolled, "" where none does.

    Of several numbers the largest, as groups are smaller than the whole.
    """
    numbers = []
    for sentence in paper.sentences:
        for match in _ENROLLED.finditer(sentence.text):
            text = (match["n"] or match["n2"]).casefold().replace(",", "")
            numbers.append(NUMBER_WORDS.get(text) or (int(text) if text.isdigit() else 0))
    most = max(numbers, default=0)
    return str(most) if most > 1 else ""
