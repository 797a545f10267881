"""Choosing among a question's options by rules: yes or no, an option's name, or its words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from srrag.algo.terms import terms
from srrag.schema import NO_CHOICE

POLAR = frozenset(("yes", "no", "maybe"))
_BEGINS = re.compile(r"\W*(yes|no|maybe)\b", re.IGNORECASE)
_NEGATES = re.compile(
    r"\b(?:no|not|nor|never|neither|none|without|cannot)\b|n['’]t\b", re.IGNORECASE
)


def choose(text: str, options: Sequence[str]) -> int:
    """The index of the option that a text settles on, NO_CHOICE for none.

    Yes, no and maybe are read from the text's stance. Other options are chosen if the text names
    them, else by the share of their words that it holds; a tie is no choice.
    """
    folded = [option.strip().casefold() for option in options]
    if not text.strip():
        return NO_CHOICE
    if POLAR.issuperset(folded):
        said = stance(text)
        return folded.index(said) if said in folded else NO_CHOICE
    named = first_named(text, options)
    return named if named != NO_CHOICE else nearest(text, options)


def stance(text: str) -> str:
    """The yes, no or maybe that a text begins with; else no if it negates, and yes if not."""
    if begins := _BEGINS.match(text):
        return begins[1].casefold()
    return "no" if _NEGATES.search(text) else "yes"


def first_named(text: str, options: Sequence[str]) -> int:
    """The option that a text names first; of two that begin there, the longer one."""
    places = []
    for n, option in enumerate(options):
        named = re.search(rf"\b{re.escape(option.strip())}(?!\w)", text, re.IGNORECASE)
        if named and option.strip():
            places.append((named.start(), -len(option), n))
    return min(places)[2] if places else NO_CHOICE


def nearest(text: str, options: Sequence[str]) -> int:
    """The option with the largest share of its words in a text; NO_CHOICE for a tie or none."""
    held = {*terms(text)}
    scores = [len(held & {*terms(each)}) / max(1, len({*terms(each)})) for each in options]
    best = max(scores, default=0.0)
    return scores.index(best) if best > 0 and scores.count(best) == 1 else NO_CHOICE
