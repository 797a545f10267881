"""The parts of a question (population, intervention, comparison, outcome) and what it claims."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from srrag.algo.language import guess_language
from srrag.answer.select.candidates import asked_outcome
from srrag.reading.lexicon import lexicon
from srrag.reading.people import conditions_in, traits
from srrag.reading.statement import Direction, polarity, read_statement

Part = Literal["P", "I", "C", "O"]
PARTS: Mapping[Part, str] = {
    "P": "population", "I": "intervention", "C": "comparison", "O": "outcome",
}  # fmt: skip
Claim = Literal["increased", "decreased", "any", ""]
"""What a yes/no question claims of its outcome; `any` for a question whether there is an effect."""

MAX_OUTCOME_WORDS = 14
_COMPARED = re.compile(
    r"\beffects? of (?P<I>.+?),? (?:compared (?:with|to)|versus|vs\.?|relative to) (?P<C>.+?) on "
    r"(?!land\b)(?P<O>.+?)(?: in (?P<P>[^,?]+))?[^\w)\]]*$",
    re.IGNORECASE,
)
_EFFECT = re.compile(
    r"\beffects? of (?P<I>.+?) on (?!land\b)(?P<O>.+?)(?: (?:in|among) (?P<P>[^,?]+))?[^\w)\]]*$",
    re.IGNORECASE,
)
_WHERE = re.compile(
    r"(?<=\w) (?:on|after|during|at|over|among|following|in|for|according to|using"
    r"|(?:as )?(?:measured|assessed|rated|defined) (?:by|with|on|using)) ",
    re.IGNORECASE,
)
_YES_NO = re.compile(
    r"\W*(?:does|do|did|can|could|is|are|was|were|should|may|might|will|would|has|have)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class AskedQuestion:
    """A question, the words of each part ("" where it names none), and its claim.

    `claim` is "" for a question that yes or no does not answer, or whose claim no word tells.
    """

    text: str
    P: str = ""
    I: str = ""  # noqa: E741
    C: str = ""
    O: str = ""  # noqa: E741
    claim: Claim = ""
    yes_no: bool = False

    def part(self, name: Part) -> str:
        """The words of a part."""
        return str(getattr(self, name))

    @property
    def outcome(self) -> str:
        """The words that a finding on this question names: what is measured, without when,
        where and by what; the whole question if it names no outcome.
        """
        return (_WHERE.split(self.O, maxsplit=1)[0] or self.O) if self.O else self.text

    def answer_of(self, said: Direction) -> str:
        """What a direction says to the question: yes or no, else higher, lower, no difference.

        Nothing to a yes/no question that claims nothing of a named outcome.
        """
        if said == "unclear" or (self.yes_no and not self.claim):
            return ""
        if not self.claim:
            return {"increased": "higher", "decreased": "lower"}.get(said, said)
        if self.claim == "any":
            return "no" if said == "no difference" else "yes"
        return "yes" if said == self.claim else "no"


def asked_question(text: str, anchors: Mapping[str, Sequence[str]]) -> AskedQuestion:
    """Read a question: its wording first, then its anchors where the wording leaves a part open."""
    found = _COMPARED.search(text) or _EFFECT.search(text)
    told = (
        {name: (words or "").strip() for name, words in found.groupdict().items()} if found else {}
    )
    said = " ".join(told.values())
    for part in PARTS:
        words = [each for each in anchors.get(part, ()) if each not in said]
        if not told.get(part) and words and not (found and part in "IC"):
            told[part] = ", ".join(words)
    if not told.get("O"):
        outcome = asked_outcome(text)
        if outcome != text and outcome.count(" ") < MAX_OUTCOME_WORDS:
            told["O"] = outcome
    parts = {part: told.get(part, "") for part in PARTS}
    if not found and conditions_in(parts["I"]) and parts["P"] and not _whom(parts["P"]):
        parts["P"], parts["I"] = parts["I"], parts["P"]
    yes_no = _YES_NO.match(text) is not None
    claim = _claim(text, parts["O"]) if yes_no and parts["O"] and (parts["I"] or parts["P"]) else ""
    return AskedQuestion(text, **parts, claim=claim, yes_no=yes_no)


def _whom(words: str) -> bool:
    """Whether words name people or a condition."""
    return bool(conditions_in(words)) or any(each.kind != "activity" for each in traits(words))


def _claim(text: str, outcome: str) -> Claim:
    """What a yes/no question claims: a direction of its outcome, or that there is an effect."""
    said = read_statement(text, outcome).direction
    if said in ("increased", "decreased"):
        return said
    if lexicon("helps").search(text):
        return "decreased" if polarity(outcome) == "bad" else "increased"
    return "any" if lexicon("change").search(text) else ""


MAX_CHARS = 4000


def other_language(question: str, texts: Sequence[str]) -> str:
    """A sentence on the two languages, "" if they are one, or either cannot be told."""
    asked = guess_language(question)
    found = guess_language(" ".join(texts)[:MAX_CHARS])
    if not asked or not found or asked == found:
        return ""
    return f"Your question seems to be in {asked}; the papers here are in {found}. Ask in {found}."
