"""What a sentence states, by lists of words: numbers, effects with direction, negations."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from srrag.algo.number_words import NUMBER_WORDS
from srrag.algo.terms import terms

Effect = Literal["up", "down", "better", "worse", "none"]

OPPOSITES: dict[Effect, tuple[Effect, ...]] = {
    "up": ("down", "none"),
    "down": ("up", "none"),
    "better": ("worse", "none"),
    "worse": ("better", "none"),
    "none": ("up", "down", "better", "worse"),
}
_CUES: tuple[tuple[Effect, str], ...] = (
    ("none", r"similar(?:ly)?|comparabl[ey]|unchanged|equivalent|unaffected|non-?significant(?:ly)?"
             r"|ineffective|no (?:\w+ ){0,2}(?:differences?|effects?|changes?|benefits?)"
             r"|alike|the same"),
    ("up", r"increas\w*|higher|greater|more|ris(?:e|es|en|ing)|rose|elevat\w+|larger|longer"
           r"|raised?|raises|gain\w*|enhanc\w+|most|highest"),
    ("down", r"decreas\w*|reduc\w+|lower\w*|less|fewer|declin\w+|fell|smaller|shorter|shorten\w*"
             r"|diminish\w*|attenuat\w+|drop(?:s|ped)?|lowest|least|prevent(?:s|ed)?"),
    ("better", r"improv\w+|better|superior\w*|beneficial|benefi(?:t|ts|ted)|effective(?:ly)?"
               r"|efficacious|recommended|favou?r\w*"),
    ("worse", r"worse\w*|inferior|deteriorat\w+|impair\w*|harm(?:s|ed|ful)?|aggravat\w+"),
)  # fmt: skip
_CUE = re.compile(
    "|".join(rf"(?P<{effect}>(?<![\w-])(?:{words})(?![\w-]))" for effect, words in _CUES),
    re.IGNORECASE,
)
_NO_EFFECT = re.compile(r"\b(?:differ\w*|significan\w*|effects?|changes?|benefits?)\b", re.I)
_NEGATION = re.compile(
    r"(?<![\w-])(?:not|no|nor|neither|never|without|cannot|none|fail(?:s|ed)? to|lack(?:s|ed)? of"
    r"|\w+n['’]t|unlikely|insufficient|absence of)(?![\w-])",
    re.IGNORECASE,
)
_STOPS_A_NEGATION = re.compile(r"[;:.!?]|,|\b(?:but|however|although|while|whereas|than)\b", re.I)
_REACH_WORDS = 5
"""How far a negation reaches: over "not significantly different between", not over a clause."""
_NUMBER = re.compile(r"(?<![A-Za-z_\d])(?<![A-Za-z][-–])\d+(?:[.,·]\d+)*(?![A-Za-z_\d]{3,})")
_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_CONTEXT_WORDS = 7
"""Words on either side of a cue or number that say what it is about."""


class TextCue(NamedTuple):
    """An effect or a number, with the stems of the words around it."""

    value: str
    around: frozenset[str]


def effects(text: str) -> list[TextCue]:
    """The effects that a sentence states; one that is negated is "none"."""
    spans = _negated_spans(text)
    found = []
    for match in _CUE.finditer(text):
        kind = str(match.lastgroup)
        negated = any(start <= match.start() < end for start, end in spans)
        if negated and kind == "none":
            continue  # "not similar" says that there is one, and not which
        found.append(
            TextCue("none" if negated else kind, _around(text, match.start(), match.end()))
        )
    return found


def numbers(text: str) -> list[TextCue]:
    """The numbers of a sentence, digits or words, each as a decimal without trailing zeros."""
    found = [
        TextCue(_decimal(m[0]), _around(text, m.start(), m.end())) for m in _NUMBER.finditer(text)
    ]
    for match in _WORD.finditer(text):
        value = NUMBER_WORDS.get(match[0].casefold())
        if value is not None and value > 1:  # "one" is mostly no number
            found.append(TextCue(str(value), _around(text, match.start(), match.end())))
    return found


def num_negations(text: str) -> int:
    """How many words of negation a text has."""
    return sum(1 for _ in _NEGATION.finditer(text))


def negated(text: str) -> frozenset[str]:
    """Stems of the content words that a negation reaches, except in a negated effect."""
    return frozenset(
        stem
        for start, end in _negated_spans(text)
        if not _CUE.search(text, start, end)
        and not _NO_EFFECT.search(text[max(0, start - 20) : end])
        for stem in content(text[start:end])
    )


def content(text: str) -> frozenset[str]:
    """Stems of the content words, numbers left out."""
    return frozenset(stem for stem in terms(text) if not stem.isdigit())


def _negated_spans(text: str) -> list[tuple[int, int]]:
    """Stretches of the text, in characters, that a negation reaches."""
    spans = []
    for match in _NEGATION.finditer(text):
        stop = _STOPS_A_NEGATION.search(text, match.end())
        most = stop.start() if stop else len(text)
        words = _WORD.finditer(text, match.end(), most)
        ends = [word.end() for word, _ in zip(words, range(_REACH_WORDS), strict=False)]
        if ends:
            spans.append((match.end(), ends[-1]))
    return spans


def _around(text: str, start: int, end: int) -> frozenset[str]:
    before = text[:start].split()[-_CONTEXT_WORDS:]
    after = text[end:].split()[:_CONTEXT_WORDS]
    return content(" ".join(before)) | content(" ".join(after))


def _decimal(written: str) -> str:
    """A number as digits with one point: "1,200" is 1200, "0·50" is 0.5."""
    plain = written.replace("·", ".")
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", plain):
        plain = plain.replace(",", "")
    plain = plain.replace(",", ".")
    whole, point, rest = plain.partition(".")
    whole, rest = whole.lstrip("0") or "0", rest.rstrip("0") if point else ""
    return f"{whole}.{rest}" if rest else whole
