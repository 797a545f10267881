"""The effects that a text states, each composed with its neighbours and negated.

"A greater reduction" is less, "a smaller gain" is less, "prevented the loss" is more, "did not
reduce" is the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, cast

from srrag.algo.terms import terms
from srrag.reading.lexicon import lexicon

Effect = Literal["up", "down", "better", "worse", "same"]
Told = tuple[Effect, re.Match[str]]

OPPOSITE: dict[Effect, Effect] = {
    "up": "down", "down": "up", "better": "worse", "worse": "better",
}  # fmt: skip
_REACH_WORDS = 6
"""How far a negation reaches: over "no statistically significant difference", not a clause."""
_REACHES = {"without": 2, "neither": 12, "nor": 12}
"""Those of other words: over "without reducing", not over "without a brace was lower"."""
_NEAR_WORDS, _FAR_WORDS = 2, 3
_STOPS = re.compile(r"[;:.!?](?!\d)|,|\b(?:but|however|although|while|whereas|than)\b", re.I)
_CONTRAST = re.compile(r"\W*(?:only|in|for|with|after|among)\b", re.I)
_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_BREAK = re.compile(r"[.;,:()]")
_SIZE = re.compile(r"(?:great|larg|high|big|low|small|few|les)[a-z]*|more|most|least", re.I)
_CHANGE_NOUN = re.compile(
    r"reductions?|decreases?|declines?|drops?|loss(?:es)?|falls?|increases?|improvements?|gains?"
    r"|rises?|benefits?|relief|worsening|deteriorations?",
    re.IGNORECASE,
)
_CHANGE_VERB = re.compile(
    r"(?:reduc|decreas|declin|increas|improv|wors|deteriorat)[a-z]+|rose|fell", re.I
)
_HOLDS_BACK = re.compile(r"(?:prevent|attenuat|suppress|diminish|reduc|lessen)[a-z]*", re.I)
_IS_OF_SIZE = re.compile(r"[^.;,]{0,80}?\b(?:was|were|is|are|being)\b(?: [\w-]+){0,2} $", re.I)
NOT_SIGNIFICANT_P = re.compile(
    r"\bp\s?(?:[->]\s?)?(?:values?)?\s?(?:>|≥|=\s?0?[.·](?:[1-9]|0[5-9]))", re.IGNORECASE
)
SIGNIFICANT_P = re.compile(r"\bp\s?(?:<|≤|=\s?0?[.·]0[0-4])", re.IGNORECASE)


class Cue(NamedTuple):
    """An effect and the characters [start, end) that tell it."""

    effect: Effect
    start: int
    end: int


def cues(text: str, own: frozenset[str] = frozenset()) -> list[Cue]:
    """Return the effects that a text states, in order; what is negated is "same".

    `own` are words and stems that are no cues: those of the outcome itself. A p-value that is not
    significant is "same" where none is significant.
    """
    told = _told(text, own)
    spans = negated_spans(text)
    found = []
    for n, (_, match) in enumerate(told):
        effect = _composed(told, n, text)
        denied = _within(match, spans)
        if effect and not (denied and effect == "same"):  # "not similar" does not say which way
            found.append(Cue("same" if denied else effect, *match.span()))
    changes = [match for match in lexicon("change").finditer(text) if _within(match, spans)]
    if not SIGNIFICANT_P.search(text):
        changes += NOT_SIGNIFICANT_P.finditer(text)
    found += [Cue("same", *match.span()) for match in changes]
    return sorted(found, key=lambda cue: cue.start)


def tells_effect(text: str) -> bool:
    """Whether `cues` finds any; most texts that tell one tell a direction, negated or not."""
    told = _told(text, frozenset())
    directions = (_composed(told, n, text) for n in range(len(told)))
    return any(effect not in (None, "same") for effect in directions) or bool(cues(text))


def _told(text: str, own: frozenset[str]) -> list[Told]:
    return [
        (cast(Effect, match.lastgroup), match)
        for match in lexicon("same", "up", "down", "better", "worse").finditer(text)
        if not (own and own & {*terms(match[0]), match[0].casefold()})
    ]


def negated_spans(text: str) -> list[tuple[int, int]]:
    """Return the stretches of a text, in characters, that a negation reaches."""
    spans = []
    for match in lexicon("negation").finditer(text):
        word = match[0].casefold()
        if word == "not" and _CONTRAST.match(text, match.end()):
            continue  # "not only", "but not in the other group"
        stop = _STOPS.search(text, match.end())
        words = _WORD.finditer(text, match.end(), stop.start() if stop else len(text))
        reach = range(_REACHES.get(word, _REACH_WORDS))
        ends = [each.end() for each, _ in zip(words, reach, strict=False)]
        if ends:
            spans.append((match.end(), ends[-1]))
    return spans


def _within(match: re.Match[str], spans: Sequence[tuple[int, int]]) -> bool:
    return any(start <= match.start() < end for start, end in spans)


def _composed(told: Sequence[Told], n: int, text: str) -> Effect | None:
    """Return the effect of a word beside its neighbours, None if a neighbour tells it."""
    effect, match = told[n]
    before, after = told[max(0, n - 1) : n], told[n + 1 : n + 2]
    near = [each for each in after if _gap(text, match, each[1]) <= _NEAR_WORDS]
    if effect == "same":
        return effect
    if _SIZE.fullmatch(match[0]):
        if any(_CHANGE_NOUN.fullmatch(m[0]) or e in ("better", "worse") for e, m in near):
            return None
        of_noun = any(_sized(text, each, match) for _, each in told[:n])
        of_verb = any(_verb_by(text, each, match) for _, each in before)
        return None if of_noun or of_verb else effect
    if _HOLDS_BACK.fullmatch(match[0]) and any(_CHANGE_NOUN.fullmatch(m[0]) for _, m in near):
        return None
    less = [m for e, m in told if e == "down" and _SIZE.fullmatch(m[0])]
    flips = any(_sized(text, match, each) or _verb_by(text, match, each) for each in less)
    for e, each in before:
        held = _HOLDS_BACK.fullmatch(each[0]) and _CHANGE_NOUN.fullmatch(match[0])
        small = e == "down" and _SIZE.fullmatch(each[0])
        flips ^= bool(held or small) and _gap(text, each, match) <= _NEAR_WORDS
    return OPPOSITE[effect] if flips else effect


def _sized(text: str, noun: re.Match[str], size: re.Match[str]) -> bool:
    """Whether a size is told of a change: "the reduction in pain was greater"."""
    return bool(
        noun.end() <= size.start()
        and _CHANGE_NOUN.fullmatch(noun[0])
        and _IS_OF_SIZE.fullmatch(text[noun.end() : size.start()])
    )


def _verb_by(text: str, verb: re.Match[str], size: re.Match[str]) -> bool:
    """Whether a size is told of a verb: "improved more"."""
    return bool(_CHANGE_VERB.fullmatch(verb[0])) and _gap(text, verb, size) <= _FAR_WORDS


def _gap(text: str, first: re.Match[str], second: re.Match[str]) -> float:
    """How many words stand between two; no number if a stop does, or they stand the other way."""
    between = text[first.end() : second.start()]
    apart = first.end() > second.start() or _BREAK.search(between)
    return float("inf") if apart else len(between.split())
