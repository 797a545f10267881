"""The direction that a sentence reports for an outcome, by rules: up, down or no difference.

The rules read single sentences and are wrong on about a quarter of the experts' own evidence. They
serve to compare ways of choosing sentences, not to judge answers.
"""

from __future__ import annotations

import re
from typing import Literal

from srrag.algo.terms import terms
from srrag.answer.outcome_kinds import named_terms

Direction = Literal["increased", "decreased", "same", ""]

_SAME = re.compile(
    r"\b(?:no|not|nor|neither|without|did ?n[o']t|was ?n[o']t|were ?n[o']t|fail(?:ed|s)? to|"
    r"lack of)\b[^.;]{0,60}?\b(?:differ\w*|change[sd]?|effects?|affect\w*|significan\w*|improve\w*|"
    r"increase\w*|decrease\w*|reduc\w*|associat\w*|benefi\w*|superior\w*|influence\w*|alter\w*)\b"
    r"|\b(?:similar\w*|comparable|equivalent|unchanged|non-?significan\w*|equal(?:ly)?|the same|"
    r"non-?inferior|as effective as|identical\w*|ns)\b|\bp\s?(?:>|=\s?0?\.(?:[1-9]|0[5-9]))",
    re.IGNORECASE,
)
_UP = re.compile(
    r"\b(?:increas\w*|higher|greater|more|rise[sn]?|rose|elevat\w*|longer|larger|gain\w*|raise[sd]?|"
    r"doubled|tripled|enhanc\w*|exceed\w*|stronger|faster|accelerat\w*|highest|longest|later)\b",
    re.IGNORECASE,
)
_DOWN = re.compile(
    r"\b(?:decreas\w*|lower\w*|reduc\w*|less|fewer|fell|fall|declin\w*|shorter|smaller|diminish\w*|"
    r"attenuat\w*|suppress\w*|prevent\w*|halved|shortened|dropp?\w*|alleviat\w*|relie[fv]\w*|"
    r"lowest|lesser|fewest|shortest|earlier)\b",
    re.IGNORECASE,
)
_BETTER = re.compile(
    r"\b(?:improv\w*|benefi\w*|effective\w*|better|superior|eased)\b", re.IGNORECASE
)
_WORSE = re.compile(r"\b(?:worse\w*|inferior|deteriorat\w*|aggravat\w*)\b", re.IGNORECASE)
_BAD = re.compile(
    r"\b(?:pain|symptom\w*|disabilit\w*|fatigue|anxiety|depress\w*|risk|mortality|deaths?|loss|"
    r"incidence|complication\w*|adverse|stress|relapse|recurrence|pressure|weight|fat|bmi|"
    r"harms?|costs?|side[- ]effects?|inflammat\w*|severity|failure|infection\w*|bleeding|distress|"
    r"days|duration|time|errors?)\b",
    re.IGNORECASE,
)

_THAN = re.compile(
    r"\b(?:than|compared (?:with|to)|versus|vs|relative to|over)\b\.?", re.IGNORECASE
)


def is_harm(outcome: str) -> bool:
    """Whether less of an outcome is better, by its words: pain, risk, time, …"""
    return _BAD.search(outcome) is not None


def names_direction(sentence: str) -> bool:
    """Whether a sentence says more or less, not only better: an improved glucose is a lower one."""
    return bool(_UP.search(sentence) or _DOWN.search(sentence))


def direction(sentence: str, intervention: str, comparator: str, outcome: str) -> Direction:
    """Return the direction of an outcome under the intervention; "" if no word says it.

    The direction word nearest to the outcome's words counts. A comparison with the comparator
    before "than" and the intervention after it is reversed.
    """
    if _SAME.search(sentence):
        return "same"
    places = _places(sentence, outcome)
    found = [(_near(m.start(), places), "increased") for m in _UP.finditer(sentence)]
    found += [(_near(m.start(), places), "decreased") for m in _DOWN.finditer(sentence)]
    good, bad = ("decreased", "increased") if is_harm(outcome) else ("increased", "decreased")
    found += [(_near(m.start(), places) + 1, good) for m in _BETTER.finditer(sentence)]
    found += [(_near(m.start(), places) + 1, bad) for m in _WORSE.finditer(sentence)]
    if not found:
        return ""
    said = min(found)[1]
    turned = _turned(sentence, intervention, comparator)
    if said == "increased":
        return "decreased" if turned else "increased"
    return "increased" if turned else "decreased"


def _places(sentence: str, words: str) -> list[int]:
    """Positions in a sentence of any of these words."""
    stems = {*named_terms(words)}
    return [m.start() for m in re.finditer(r"[^\W_]+", sentence) if {*named_terms(m[0])} & stems]


def _near(place: int, places: list[int]) -> int:
    return min((abs(place - each) for each in places), default=0)


def _turned(sentence: str, intervention: str, comparator: str) -> bool:
    """Whether the comparator comes before "than" and the intervention after it."""
    than = _THAN.search(sentence)
    if than is None:
        return False
    own = {*terms(intervention)} - {*terms(comparator)}
    other = {*terms(comparator)} - {*terms(intervention)}
    before, after = {*terms(sentence[: than.start()])}, {*terms(sentence[than.end() :])}
    return len(other & before) > len(own & before) and len(own & after) > len(other & after)
