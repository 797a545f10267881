"""A message of a conversation as a question that stands alone, by rules from the one before."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from srrag.algo.terms import terms
from srrag.expand.picot_anchors import PERSON, rule_anchors
from srrag.reading.lexicon import lexicon
from srrag.reading.mentions import find_mentions

MAX_TURNS = 8
"""Questions before the last one that may still carry what it is about."""
MAX_TERMS = 5
"""Content words up to which a message may lean on the one before by a pronoun: people ask longer
ones whole, and what they refer to stands in them."""
_THANKS = re.compile(
    r"^\W*(?:(?:(?:many |ok(?:ay)?,? |great,? |perfect,? )?thank(?:s|\s?you)|thx|cheers|danke|merci"
    r"|gracias)\b|(?:ok(?:ay)?|great|perfect|got it|understood|bye|goodbye)\b(?=\W*$|[,!.]))"
    r"(?:[\s,!.]*(?:so much|very much|a lot|again|that(?: really)? (?:helps|helped)"
    r"|for (?:your|the) (?:help|answer)|you|all|doctor|bye)\b)*[\s,!.…)(:]*",
    re.IGNORECASE,
)
_WORDS = re.compile(r"\w")
_OPENING = re.compile(
    r"^\W*(?:(?:and|but|so|ok(?:ay)?|then|also)\b,?\s*)?(?:(?:what|how) about|and)\s+"
    r"|^\W*(?:and|but|also)\s+",
    re.IGNORECASE,
)
_PEOPLE_FIRST = re.compile(r"^(?:in|for|among|with)\s+", re.IGNORECASE)
_INSTEAD = re.compile(r"^(?:compared (?:with|to)|versus|vs\.?|against)\s+", re.IGNORECASE)
_ON = re.compile(r"^(?:on|the effect on)\s+", re.IGNORECASE)
_REST = re.compile(
    r"\s(with(?:out)?|who|on|receiving|undergoing|after)\b(.*)", re.IGNORECASE | re.DOTALL
)
_ARTICLE = re.compile(r"^(?:an?|the)\s+", re.IGNORECASE)
_THING = re.compile(r"\b(?:it|this|that)\b(?!\s+(?:is|was)\s+(?:safe|true) to)", re.IGNORECASE)
_PERSONS = re.compile(r"\b(?:they|them|these people|those people)\b", re.IGNORECASE)
_REFERS = re.compile(
    r"\b(?:it|its|s?he|him|her|they|them|their|this|that|these|those|the same"
    r"|the (?:players|patients|participants|athletes|women|men|children|people|groups?"
    r"|stud(?:y|ies)|trials?|authors))\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\b(?:what|which|who|how|why|when|where|does|do|did|is|are|was|were|can|should|will)\b", re.I
)


@dataclass(frozen=True)
class StandaloneQuestion:
    """What a message asks: `text` stands alone, `asked` is what was written.

    A follow-up was rewritten from the question before it; thanks ask nothing.
    """

    text: str
    asked: str
    kind: Literal["question", "follow_up", "thanks"] = "question"

    @property
    def rewritten(self) -> bool:
        """Whether the text differs from what was written."""
        return self.kind == "follow_up"


def standalone_question(messages: Sequence[str], most_chars: int) -> StandaloneQuestion:
    """The last of a user's messages as a question of its own; the first message stays as it is.

    A message that leans on the one before stands behind it, if both fit into `most_chars`. Each
    message is read after the question that the one before it became, up to MAX_TURNS back.
    """
    current = StandaloneQuestion("", "")
    for message in messages[-MAX_TURNS - 1 :]:
        found = _read(message, current.text, most_chars)
        # Thanks in between do not change what a later message refers to.
        current = StandaloneQuestion(current.text, message, "thanks") if found is None else found
    if current.kind == "thanks":
        return StandaloneQuestion("", current.asked, "thanks")
    return current


def _read(message: str, before: str, most_chars: int) -> StandaloneQuestion | None:
    """A message after a question that stands alone; None for thanks."""
    thanks = _THANKS.match(message)
    rest = message[thanks.end() :].strip() if thanks else message.strip()
    if thanks and not terms(rest):
        return None
    if not before or not _leans(rest):
        return StandaloneQuestion(rest if thanks else message, message)
    text = _replaced(rest, before) or f"{before} {rest}"
    if len(text) > most_chars:
        return StandaloneQuestion(rest, message)
    return StandaloneQuestion(text, message, "follow_up")


def _leans(message: str) -> bool:
    """Whether a message needs the one before, by its opening, its references or its length."""
    if _WORDS.search(message) is None:
        return False
    asks = _ASKS.search(message)
    if _OPENING.match(message) or (
        not asks and (_PEOPLE_FIRST.match(message) or _INSTEAD.match(message))
    ):
        return True
    held = terms(message)
    if len(held) > MAX_TERMS:
        return False  # what its "it" and "they" mean stands in itself
    (anchors,) = rule_anchors([message])
    whole = anchors["I"] and (anchors["P"] or anchors["C"] or anchors["O"])
    if whole and not _PERSONS.search(message) and not _THING.search(message):
        return False
    asked = anchors["I"] and anchors["O"] if not asks else any(anchors.values())
    return _REFERS.search(message) is not None or not asked


def _replaced(message: str, before: str) -> str:
    """The question before with one part exchanged, "" where no opening says which."""
    words = _OPENING.sub("", message).strip().rstrip("?!. ")
    if _ASKS.search(words) or not words:
        return ""
    part, bare = _part(words, opened=_OPENING.match(message) is not None)
    if not part:
        return ""
    (anchors,) = rule_anchors([before])
    old = next((each for each in anchors[part] if _place(each).search(before)), "")
    if old and PERSON.search(bare) and not PERSON.search(old):
        return ""  # people take no illness's place
    if old:
        new = _people(bare, old) if part == "P" and PERSON.search(old) else bare
        return _place(old).sub(lambda _: new, before, count=1) if new else ""
    joint = {"P": "in", "C": "compared with", "O": "on", "I": "with"}[part]
    return f"{before.rstrip('?!. ')} {joint} {bare}?"


def _place(anchor: str) -> re.Pattern[str]:
    """Where an anchor stands as whole words, with its article."""
    return re.compile(rf"(?:\b(?:an?|the) )?(?<!\w){re.escape(anchor)}(?!\w)")


def _people(bare: str, old: str) -> str:
    """The people of a message with the illness or care of those before, "" if in doubt about it."""
    rest, own = _REST.search(old), _REST.search(bare)
    if rest is None:
        return bare
    if own is None:
        return bare + rest[0] if PERSON.search(bare) else ""
    # One illness takes the other's place, but "on warfarin" leaves an illness as it is.
    same = own[1].casefold()[:4] == rest[1].casefold()[:4]
    return bare if same and own[2].strip() else ""


def _part(words: str, opened: bool) -> tuple[str, str]:
    """The part of a question that words name, "" if none tells, and the words without "in".

    Only what is a named intervention as a whole takes a treatment's place: a harm, a dose or an
    outcome in it would be searched for as a treatment, and the treatment's own never found.
    """
    for pattern, part in ((_INSTEAD, "C"), (_ON, "O"), (_PEOPLE_FIRST, "P")):
        if match := pattern.match(words):
            return part, words[match.end() :]
    if not opened or lexicon("negation", "withheld").search(words):
        return "", words
    (mentions,) = find_mentions([words], [""], [False])
    kinds = {mention.type for mention in mentions}
    if kinds & {"Population", "Condition"} and "Intervention" not in kinds:
        return "P", words
    named = {words[each.start : each.end] for each in mentions if each.type == "Intervention"}
    return ("I" if _ARTICLE.sub("", words) in named else ""), words
