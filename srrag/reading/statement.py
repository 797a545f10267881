"""Which way a sentence says that an outcome went, and whether that is better or worse.

Plain sentences alone are read. A sentence that tells it in a roundabout way, as by a smaller gain,
by a prevented loss, by survival where deaths are asked for, or by what happened without the
treatment, is left unread: a reader sees the sentence itself, and no wrong direction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, cast

from srrag.algo.terms import terms
from srrag.reading.lexicon import alternatives, lexicon, named_terms

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
_STOPS = re.compile(
    r"[;:.!?](?!\d)|,|\b(?:but|however|although|while|whereas|than)\b|\band (?:\w+ly )?\w+ed\b",
    re.I,
)
_CONTRAST = re.compile(r"\W*(?:only|in|for|with|after|among)\b", re.I)
_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_BREAK = re.compile(r"[.;,:()]")
_SIZE = re.compile(r"(?:great|larg|high|big|low|small|few|les|slow)[a-z]*|more|most|least", re.I)
_CHANGE_NOUN = re.compile(
    r"reductions?|decreases?|declines?|drops?|loss(?:es)?|falls?|increases?|improvements?|gains?"
    r"|rises?|benefits?|relief|worsening|deteriorations?",
    re.IGNORECASE,
)
_CHANGE_VERB = re.compile(
    r"(?:reduc|decreas|declin|increas|improv|wors|deteriorat|lower|shorten)[a-z]+|rose|fell|lost",
    re.IGNORECASE,
)
_HOLDS_BACK = re.compile(r"(?:prevent|attenuat|suppress|diminish|reduc|lessen|slow)[a-z]*", re.I)
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
    """Whether a text holds a word of direction or tells of no change; most do tell a direction."""
    told = any(effect != "same" for effect, _ in _told(text, frozenset()))
    return told or bool(cues(text))


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
    """Return the effect of a word, None if a neighbour tells it or makes it another.

    "A greater reduction" is one; of "a smaller reduction" and "prevented the loss" nothing is told.
    """
    effect, match = told[n]
    if effect == "same":
        return effect
    if _SIZE.fullmatch(match[0]):
        return None if any(_sized(text, each, match) for each in told) else effect
    less = [size for e, size in told if e == "down" and _SIZE.fullmatch(size[0])]
    if any(_sized(text, told[n], size) for size in less):
        return None
    held = any(_held(text, each, match) or _held(text, match, each) for _, each in told)
    return None if held else effect


def _sized(text: str, change: Told, size: re.Match[str]) -> bool:
    """Whether a size is told of a change: "a greater reduction", "less effective", "improved more",
    "the reduction in pain was greater".
    """
    effect, match = change
    if _gap(text, size, match) <= _NEAR_WORDS:
        return effect in ("better", "worse") or bool(_CHANGE_NOUN.fullmatch(match[0]))
    if _CHANGE_VERB.fullmatch(match[0]) and _gap(text, match, size) <= _FAR_WORDS:
        return True
    between = text[match.end() : size.start()]  # "" where the size stands before
    return bool(_CHANGE_NOUN.fullmatch(match[0]) and _IS_OF_SIZE.fullmatch(between))


def _held(text: str, verb: re.Match[str], change: re.Match[str]) -> bool:
    """Whether a change is held back: "prevented the loss", "the decline was reduced"."""
    if not (_HOLDS_BACK.fullmatch(verb[0]) and _CHANGE_NOUN.fullmatch(change[0])):
        return False
    between = text[change.end() : verb.start()]
    return _gap(text, verb, change) <= _NEAR_WORDS or bool(between and _IS_OF_SIZE.match(between))


def _gap(text: str, first: re.Match[str], second: re.Match[str]) -> float:
    """How many words stand between two; no number if a stop does, or they stand the other way."""
    between = text[first.end() : second.start()]
    apart = first.end() > second.start() or _BREAK.search(between)
    return float("inf") if apart else len(between.split())


Direction = Literal["increased", "decreased", "no difference", "unclear"]
Worth = Literal["better", "worse", "no difference", "unclear"]
Polarity = Literal["good", "bad", ""]

_SPARED = re.compile(
    r"[- ]free\b|\bfree (?:of|from)\b|\btime (?:to|until)\b"
    r"|\b(?:who|with|those) (?:had )?(?:no|without)\b"
    r"|\babsence of|\bsurviv\w+|\balive\b|\blife expectancy\b|\b(?:thresholds?|tolerance)\b"
    r"|\b(?:healing|recovery|union) times?\b",
    re.IGNORECASE,
)
"""Tells of those whom an event passed by, or of the time until it."""
_PACE = re.compile(r"\b(?:faster|slow\w*|accelerat\w*)", re.IGNORECASE)
"""More of an event, and less of the time until it."""
_WHO_DID_NOT = re.compile(
    r"\bwho(?: \w+){0,2} (?:not|never)\b"
    rf"|\b(?:{alternatives('person')}|groups?|arms?|those)"
    r" (?:(?:that|which)(?: \w+){0,2} )?(?:not|never) \w+",
    re.IGNORECASE,
)
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
    r"|\b(?:but|although|though|however)\b[^.;]{0,80}\bnot? (?:[\w-]+ ){0,3}?"
    r"significan(?:t|ce|tly(?: so)?)\s*(?:[(.,;)]|$)"
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

    The clause that names most of the outcome counts, and all its words of direction have to
    agree. Intervention and comparator say which side of "than" is meant. What both groups do tells
    nothing of a comparison, and neither does what happened without the intervention.
    """
    clause = _clause(sentence, outcome)
    wanted = polarity(outcome or clause)
    own = frozenset(terms(outcome)) | ({"fell"} if _FALLS.search(outcome) else frozenset())
    told = {_direction(cue, wanted): cue for cue in cues(clause, own)}
    direction: Direction = next(iter(told)) if len(told) == 1 else "unclear"
    if _TAKEN_BACK.search(clause):
        direction = "no difference"
    elif direction != "no difference" and _TAKEN_BACK.search(_behind(sentence, clause)):
        direction = "unclear"  # of this outcome or of another
    if _roundabout(sentence, clause, direction, (outcome, intervention, comparator)):
        direction = "unclear"
    clear = _is_clear(sentence, direction)
    return Statement(direction, _worth(direction, wanted), clear)


def polarity(outcome: str) -> Polarity:
    """Whether more of an outcome is good or bad for the patient; "" if its words do not tell."""
    kinds: tuple[tuple[str, Polarity], ...] = (
        ("good_of", "good"), ("bad_of", "bad"), ("good", "good"), ("bad", "bad"),
    )  # fmt: skip
    return next((said for kind, said in kinds if lexicon(kind).search(outcome)), "")


def contrary(one: str, other: str) -> bool:
    """Whether more of one outcome is good and more of the other bad: survival and death."""
    return {polarity(one), polarity(other)} == {"good", "bad"}


def _direction(cue: Cue, wanted: Polarity) -> Direction:
    if cue.effect == "same":
        return "no difference"
    if cue.effect in ("better", "worse") and not wanted:
        return "unclear"
    more = cue.effect in ("up", "worse" if wanted == "bad" else "better")
    return "increased" if more else "decreased"


def _worth(direction: Direction, wanted: Polarity) -> Worth:
    if direction == "no difference":
        return direction
    if direction == "unclear" or not wanted:
        return "unclear"
    return "better" if (direction == "increased") == (wanted == "good") else "worse"


def _is_clear(sentence: str, direction: Direction) -> bool:
    """Whether it says one thing: a significant difference unhedged, or none and nothing else."""
    if direction == "no difference":
        rest = _NOT_SIGNIFICANT.sub("", sentence)
        other = SIGNIFICANT_P.search(rest) or lexicon("significance").search(rest)
        return not other and lexicon("elsewhere").search(sentence) is None
    if direction == "unclear":
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


def _roundabout(
    sentence: str, clause: str, direction: Direction, asked: tuple[str, str, str]
) -> bool:
    """Whether a clause tells of the outcome or of the intervention by their contraries."""
    outcome, intervention, comparator = asked
    own = {*terms(intervention)} - {*terms(comparator)}
    other = {*terms(comparator)} - {*terms(intervention)}
    if outcome and bool(_SPARED.search(clause)) != bool(_SPARED.search(outcome)):
        return True
    if outcome and _PACE.search(clause) and not _PACE.search(" ".join(asked)):
        return True
    than = lexicon("than").search(clause)
    before, after = (clause[: than.start()], clause[than.end() :]) if than else (clause, "")
    if than and (before.endswith(", ") or not terms(before.rpartition(":")[2])):
        after, _, rest = after.partition(", ")  # "At 12 weeks, compared with rest, taping …"
        before += rest
    withheld = lexicon("withheld")
    compared = own or other
    if compared and withheld.search(before) and not withheld.search(f"{outcome} {intervention}"):
        return True
    same = direction == "no difference"
    if not same and (_denies_a_name(before) or (compared and lexicon("within").search(clause))):
        return True
    if _WHO_DID_NOT.search(before):
        return True
    if own & {*terms(after)} and not withheld.search(after):
        return True
    control = lexicon("control" if than else "control_group").search(before)
    others = control or other & {*terms(before)} or own & {*terms(_behind(sentence, clause))}
    return bool(others) and not own & {*terms(before)}


def _behind(sentence: str, clause: str) -> str:
    return sentence[sentence.find(clause) + len(clause) :]


def _denies_a_name(text: str) -> bool:
    """Whether a negation denies no word of direction or change: "those not given aspirin"."""
    told = [*lexicon("same", "up", "down", "better", "worse", "change").finditer(text)]
    return any(
        not any(start <= match.start() < end for match in told)
        for start, end in negated_spans(text)
    )
