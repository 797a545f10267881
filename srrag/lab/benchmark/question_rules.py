"""Questions by template: the rules of WriteQuestion, used without a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from srrag.answer.select.snippets import PART_OF
from srrag.lab.benchmark.detect_conclusions import conclusions
from srrag.reading.mentions import find_mentions

_HEDGED = re.compile(
    r"\b(?:may|might|could|unclear|uncertain\w*|unknown|conflicting|inconclusive|preliminary|pilot|"
    r"(?:low|very low|limited|weak|insufficient|thin|scarce|poor) (?:quality |certainty )?"
    r"(?:evidence|certainty|data)|evidence [\w ,]{0,60}is (?:thin|weak|limited|low|lacking)|"
    r"no comparison group|further (?:research|studies|trials)|say nothing|rest on opinion)\b",
    re.IGNORECASE,
)
_ELEMENT_CHARS, _TITLE_CHARS = 100, 160
Found = dict[str, Any]


def rule_questions(windows: Sequence[tuple[str, str, str]]) -> list[Found]:
    """Return the fields of a SeedQuestion for each window, a (text, section, title)."""
    sentences = [_sentence(window, section) for window, section, _ in windows]
    found = []
    rows = zip(windows, sentences, _elements(sentences), strict=True)
    for (window, _, title), sentence, picot in rows:
        question = _question(picot, title)
        hedge = _HEDGED.search(window)
        found.append(
            {
                "conclusion": sentence if question else "",
                "question": question,
                "picot": picot,
                "certainty": "uncertain" if hedge else "sufficient",
                "reason": (f"says {hedge[0][:60]!r}" if hedge else "no hedging word")
                if question
                else "the rules found no intervention or outcome in a concluding sentence",
            }
        )
    return found


def _sentence(window: str, section: str) -> str:
    """Return the best concluding sentence that fits its field, verbatim."""
    texts = (window[each.start : each.end] for each in conclusions(window, section))
    return next((text for text in texts if len(text) <= 800), "")


def _elements(texts: Sequence[str]) -> list[Found]:
    """Return the first mention of each PICOT element in each text, up to a semicolon."""
    typed = find_mentions(texts, [""] * len(texts), [False] * len(texts)) if texts else []
    found = []
    for text, mentions in zip(texts, typed, strict=True):
        picot = dict.fromkeys("PICOT", "")
        for mention in mentions:
            part, words = PART_OF.get(mention.type, ""), text[mention.start : mention.end]
            words = " ".join(words.partition(";")[0].split())
            if part and not picot[part] and 2 < len(words) <= _ELEMENT_CHARS:
                picot[part] = words
        found.append(picot)
    return found


def _question(picot: Found, title: str) -> str:
    """Fill the question template; "" without an intervention or an outcome.

    If the sentence names no population, the title (without its numbers) takes its place.
    """
    about = " ".join(re.sub(r"\d", "", title).split())[:_TITLE_CHARS]
    who = f"In {picot['P']}, what" if picot["P"] else f"{about}: what" if about else "What"
    if picot["I"] and picot["O"]:
        against = f" compared with {picot['C']}" if picot["C"] else ""
        return f"{who} is the effect of {picot['I']}{against} on {picot['O']}?"
    if picot["I"]:
        return f"{who} does the evidence say about {picot['I']}?"
    if picot["O"]:
        return f"{who} is known about {picot['O']}?"
    return ""
