"""Which way a sentence says that an outcome went, and whether that is better or worse.

Each effect is composed with its neighbours and negated: "a greater reduction" is less, "a smaller
gain" is less, "prevented the loss" is more, "did not reduce" is the same.
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


Direction = Literal["increased", "decreased", "no difference", "unclear"]
Worth = Literal["better", "worse", "no difference", "unclear"]
Polarity = Literal["good", "bad", ""]

_TURNS: dict[Direction, Direction] = {"increased": "decreased", "decreased": "increased"}
_BESIDE = re.compile(r" (?:(?:of|from|to|the|their|an?|all|any) ){0,2}", re.IGNORECASE)
_MENTION = re.compile(r"life expectancy|[^\W_]+", re.IGNORECASE)
_LIVING = re.compile(r"alive|life expectancy", re.IGNORECASE)
_IS_FREE = re.compile(
    r"[- ]free (?:days?|nights?|weeks?|months?|survival|intervals?|periods?|rates?"
    r"|status|at|after)\b|-free (?:and|or|for|by|in|with|than|patients)\b|[- ]free\s*(?:$|[.,;:])",
    re.IGNORECASE,
)
"""Behind an event; "gluten-free diet" and "free fatty acids" are of none."""
_FREE_OF = re.compile(
    rf"(?:\bfree (?:of|from)|\btime (?:to|until)|\b(?:{alternatives('person')}|days|those|survival)"
    r" (?:(?:who|were|had|have|with|reported|experienced|remained) ){0,2}(?:no|without))"
    r" (?:(?:the|any|first|\w+ or) ){0,2}(?:[\w-]+ )?$",
    re.IGNORECASE,
)
_ENDS = re.compile(
    r" (?:(?:had|has|was|were|is) )?(?:resol\w+|remi(?:ssion|tted)|clear(?:ance|ed)|recover\w+"
    r"|stop\w*|ceas\w+|cessation|disappear\w*|subsid\w+|relie\w+|improve\w*|alleviat\w+)",
    re.IGNORECASE,
)
"""Behind an illness that ends: a shorter time to its resolution is less of it."""
_BESIDES = re.compile(
    r"\b(?:add\w*|combin\w+|plus|also|given|deliver\w+|intervention|program\w*|treatment|drug"
    r"|therapy)\b",
    re.IGNORECASE,
)
"""Tells that usual care was what both sides had."""
_WHEN = re.compile(r"later|earlier", re.IGNORECASE)
"""Tells of the time until an event as it stands: a later relapse is a longer time to relapse."""
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
    nearest to the outcome; any "no difference" there comes first. What is said of those spared the
    outcome, or of the time until it, is turned. Intervention and comparator say
    which side of "than" is meant. What both groups do tells nothing of a comparison, and neither
    does what stopping the intervention did.
    """
    own = frozenset(terms(outcome)) | ({"fell"} if _FALLS.search(outcome) else frozenset())
    clause = _clause(sentence, outcome)
    found = cues(clause, own)
    if not found and clause != sentence:
        clause, found = sentence, cues(sentence, own)
    wanted = polarity(outcome or clause)
    cue, turned = _chosen(found, clause, outcome)
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
        if turned and cue and cue.effect in ("up", "down"):
            direction = _TURNS.get(direction, direction)
    if _withheld(clause, intervention):
        direction = "unclear"
    elif _turned(clause, intervention, comparator):
        direction = _TURNS.get(direction, direction)
    clear = _is_clear(sentence, direction, cue, wanted)
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


def _chosen(found: list[Cue], clause: str, outcome: str) -> tuple[Cue | None, bool]:
    """The cue that counts, None if there is none, and whether it tells of the outcome's contrary.

    Longer survival is less mortality. Where a clause names both, the outcome itself counts.
    """
    stems = frozenset(named_terms(outcome))
    own = {(each.stem, each.spared) for each in _mentions(outcome, stems)}
    told = _mentions(clause, stems)
    agreed = [e for e in told if e.spared is None or {(e.stem, e.spared), (e.stem, None)} & own]
    known = {each.stem for each in agreed}
    against = [each for each in told if each.stem not in known]
    if any(each.spared for each in agreed):
        against = []

    def order(cue: Cue) -> tuple[bool, int, int]:
        apart = min((abs(cue.start - each.place) for each in (*agreed, *against)), default=0)
        return cue.effect != "same", apart + (cue.effect in ("better", "worse")), cue.start

    cue = min(found, key=order, default=None)
    if cue is None or not against or _WHEN.fullmatch(clause[cue.start : cue.end]):
        return cue, False
    start = cue.start
    events = [each for each in agreed if each.is_event]
    return cue, min((*against, *events), key=lambda each: abs(start - each.place)) in against


class _Mention(NamedTuple):
    """A stem of the outcome at a place of a text; `spared`: of those whom the event passed by.

    None is either: a "recovery time" is one to recovery, a "bleeding time" none to bleeding.
    """

    place: int
    stem: str
    spared: bool | None
    is_event: bool


def _mentions(text: str, stems: frozenset[str]) -> list[_Mention]:
    """Each stem of an outcome in a text; of "time to heart failure" it is the failure's time."""
    words = [
        (word, held)
        for word in (_MENTION.finditer(text) if stems else ())
        if (held := stems & ({"death"} if _LIVING.fullmatch(word[0]) else {*named_terms(word[0])}))
    ]
    heads = {word.start() - 1 for word, _ in words}
    return [
        _Mention(word.start(), stem, _spared(text, word, heads), bool(polarity(word[0])))
        for word, held in words
        for stem in sorted(held)
    ]


def _spared(text: str, word: re.Match[str], heads: set[int]) -> bool | None:
    """Whether a word counts those whom its event passed by, or the time until it."""
    if word[0].casefold().startswith("surviv") or _LIVING.fullmatch(word[0]):
        return True
    if _IS_FREE.match(text, word.end()):
        return True
    if text[word.end() : word.end() + 5].casefold() == " time":
        return None
    if _ENDS.match(text, word.end()):
        return False
    return word.end() not in heads and bool(
        _FREE_OF.search(text, max(0, word.start() - 80), word.start())
    )


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


def _withheld(clause: str, intervention: str) -> bool:
    """Whether a clause names the intervention only to say that it was stopped or not given."""
    own = {*terms(intervention)}
    if not own or lexicon("withheld").search(intervention):
        return False
    places = [word.span() for word in _WORD.finditer(clause) if own & {*terms(word[0])}]
    away = [match.span() for match in lexicon("withheld").finditer(clause)]
    return bool(away and places) and all(
        any(
            _BESIDE.fullmatch(clause[a[1] : b[0]])
            for word in away
            for a, b in ((word, place), (place, word))
            if a[1] <= b[0]
        )
        for place in places
    )


def _turned(clause: str, intervention: str, comparator: str) -> bool:
    """Whether the sentence tells of the comparator: before "than", or alone.

    A control group is one, also if no comparator is named.
    """
    own = {*terms(intervention)} - {*terms(comparator)}
    other = {*terms(comparator)} - {*terms(intervention)}
    than = lexicon("than").search(clause)
    if than is None:
        group = lexicon("control_group").search(clause)
        beside = group and "care" in group[0].casefold() and _BESIDES.search(clause)
        return not own & {*terms(clause)} and group is not None and not beside
    before, after = clause[: than.start()], clause[than.end() :]
    if not terms(before):  # "Compared with rest, taping …"
        after, _, before = after.partition(", ")
    controls = [bool(lexicon("control").search(each)) and not other for each in (before, after)]
    own_before, own_after = (len(own & {*terms(each)}) for each in (before, after))
    other_before, other_after = (
        len(other & {*terms(each)}) + control
        for each, control in zip((before, after), controls, strict=True)
    )
    if not own:
        return other_before > other_after
    return other_before > own_before and own_after > other_after
