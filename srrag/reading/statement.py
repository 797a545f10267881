"""Which way a sentence says that an outcome went, and whether that is better or worse."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from srrag.algo.terms import terms
from srrag.reading.effects import NOT_SIGNIFICANT_P, SIGNIFICANT_P, Cue, cues
from srrag.reading.lexicon import lexicon
from srrag.reading.outcome_kinds import named_terms

Direction = Literal["increased", "decreased", "no difference", "unclear"]
Worth = Literal["better", "worse", "no difference", "unclear"]
Polarity = Literal["good", "bad", ""]

_TURNS: dict[Direction, Direction] = {"increased": "decreased", "decreased": "increased"}
_FALLS = re.compile(r"\bfall(?:s|ing|en)?\b", re.IGNORECASE)
_BRACKET = re.compile(r"[(\[)\]]")
_CLAUSE = re.compile(
    r"; |, (?=(?:while|whereas|but|although|though|however|yet|despite)\b)"
    r"|(?<=\w) (?=(?:whereas|but)\b)|(?<=^Although )|(?<=^Despite )"
    r"|, (?=(?:and )?(?:there (?:was|were)|no)\b)"
)
_TAKEN_BACK = re.compile(
    r"\bdifferences? (?:was|were|is|are) (?:not|non)"
    r"|\bnot reach(?:ed)? (?:statistical )?significance"
    r"|\b(?:but|although|though|however)\b[^.;]{0,80}\bnot? (?:[\w-]+ ){0,3}?significan"
    r"|\bno\b[^.;]{0,40}\bdifferences?\b[^.;]{0,60}"
    r"\b(?:observed|found|seen|noted|detected|between|among)\b"
    r"|\bbetween-group differences? did not"
    r"|\bnot\b[^.;]{0,30}\bany\b[^.;]{0,30}\bsignificant differences?",
    re.IGNORECASE,
)
"""What a sentence takes back of a direction that it told before."""
_NOT_SIGNIFICANT = re.compile(
    r"\b(?:no|not|nor|non|neither|without|did ?n[o']t)\b[^.;,]{0,40}\bsignifican\w*"
    r"|\bnon-?significan\w*|\b(?-i:NS)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Statement:
    """What a sentence says of an outcome.

    `direction` is that of the outcome's value under the intervention; `better_or_worse` is what
    this means for the patient, "unclear" where the outcome's words do not tell. `clear`: it tells
    its direction one way only and hedges nothing.
    """

    direction: Direction
    better_or_worse: Worth
    clear: bool


@lru_cache(maxsize=1024)
def read_statement(
    sentence: str, outcome: str = "", intervention: str = "", comparator: str = ""
) -> Statement:
    """Read what a sentence says of an outcome; of what it tells of, if no outcome is named.

    The clause that names most of the outcome counts, and in it the word of direction that is
    nearest to the outcome; any "no difference" there comes first. Intervention and comparator say
    which side of "than" is meant. What both groups do tells nothing of a comparison.
    """
    own = frozenset(terms(outcome)) | ({"fell"} if _FALLS.search(outcome) else frozenset())
    clause = _clause(sentence, outcome)
    found = cues(clause, own)
    if not found and clause != sentence:
        clause, found = sentence, cues(sentence, own)
    wanted = polarity(outcome or clause)
    cue = _chosen(found, clause, outcome)
    if _TAKEN_BACK.search(sentence, max(0, sentence.find(clause))):
        direction: Direction = "no difference"
    elif (
        cue
        and cue.effect != "same"
        and (intervention or comparator)
        and lexicon("within").search(clause)
    ):
        direction = "unclear"
    else:
        direction = _direction(cue, wanted)
    if _turned(clause, intervention, comparator):
        direction = _TURNS.get(direction, direction)
    clear = _is_clear(sentence, direction, cue, wanted)
    return Statement(direction, _worth(direction, wanted), clear)


def polarity(outcome: str) -> Polarity:
    """Whether more of an outcome is good or bad for the patient; "" if its words do not tell."""
    kinds: tuple[tuple[str, Polarity], ...] = (
        ("good_of", "good"), ("bad_of", "bad"), ("good", "good"), ("bad", "bad"),
    )  # fmt: skip
    return next((said for kind, said in kinds if lexicon(kind).search(outcome)), "")


def _chosen(found: list[Cue], clause: str, outcome: str) -> Cue | None:
    """The cue that counts, None if there is none."""
    stems = {*named_terms(outcome)}
    words = re.finditer(r"[^\W_]+", clause) if stems else ()
    places = [word.start() for word in words if {*named_terms(word[0])} & stems]

    def order(cue: Cue) -> tuple[bool, int, int]:
        apart = min((abs(cue.start - place) for place in places), default=0)
        return cue.effect != "same", apart + (cue.effect in ("better", "worse")), cue.start

    return min(found, key=order, default=None)


def _direction(cue: Cue | None, wanted: Polarity) -> Direction:
    if cue is None:
        return "unclear"
    if cue.effect == "same":
        return "no difference"
    more = cue.effect in ("up", "worse" if wanted == "bad" else "better")
    return "increased" if more else "decreased"


def _worth(direction: Direction, wanted: Polarity) -> Worth:
    if direction == "no difference":
        return direction
    if direction == "unclear" or not wanted:
        return "unclear"
    return "better" if (direction == "increased") == (wanted == "good") else "worse"


def _is_clear(sentence: str, direction: Direction, cue: Cue | None, wanted: Polarity) -> bool:
    """Whether it says one thing: a significant difference unhedged, or none and nothing else.

    "Improved" alone is clear only of what is known to be good or bad.
    """
    if direction == "no difference":
        rest = _NOT_SIGNIFICANT.sub("", sentence)
        other = SIGNIFICANT_P.search(rest) or lexicon("significance").search(rest)
        return not other and lexicon("elsewhere").search(sentence) is None
    if direction == "unclear" or cue is None or (not wanted and cue.effect in ("better", "worse")):
        return False
    hedged = (lexicon("hedge"), _NOT_SIGNIFICANT, NOT_SIGNIFICANT_P)
    said = SIGNIFICANT_P.search(sentence) or lexicon("significance").search(sentence)
    return bool(said) and not any(each.search(sentence) for each in hedged)


def _clause(sentence: str, outcome: str) -> str:
    """The clause that names most of the outcome, the whole sentence if none names it."""
    wanted = {*named_terms(outcome)}
    clauses = _clauses(sentence)
    if not wanted or len(clauses) < 2:
        return sentence
    shares = [len(wanted & {*named_terms(each)}) for each in clauses]
    return clauses[shares.index(max(shares))] if any(shares) else sentence


def _clauses(sentence: str) -> list[str]:
    """The clauses of a sentence; nothing in brackets is cut."""
    cuts, depth, at = [0], 0, 0
    for bracket in _BRACKET.finditer(sentence):
        if depth == 0:
            cuts += [cut.end() for cut in _CLAUSE.finditer(sentence, at, bracket.start())]
        depth = max(0, depth + (1 if bracket[0] in "([" else -1))
        at = bracket.end()
    cuts += [cut.end() for cut in _CLAUSE.finditer(sentence, at)] if depth == 0 else []
    pieces = [sentence[a:b] for a, b in zip(cuts, [*cuts[1:], len(sentence)], strict=True)]
    return [each for each in pieces if each.strip()]


def _turned(clause: str, intervention: str, comparator: str) -> bool:
    """Whether the sentence tells of the comparator: before "than", or alone.

    A control group is one, also if no comparator is named.
    """
    own = {*terms(intervention)} - {*terms(comparator)}
    other = {*terms(comparator)} - {*terms(intervention)}
    than = lexicon("than").search(clause)
    if than is None:
        return not own & {*terms(clause)} and lexicon("control_group").search(clause) is not None
    before, after = clause[: than.start()], clause[than.end() :]
    controls = [bool(lexicon("control").search(each)) and not other for each in (before, after)]
    own_before, own_after = (len(own & {*terms(each)}) for each in (before, after))
    other_before, other_after = (
        len(other & {*terms(each)}) + control
        for each, control in zip((before, after), controls, strict=True)
    )
    if not own:
        return other_before > other_after
    return other_before > own_before and own_after > other_after
