"""The answer by rules: quotes in three paragraphs, without a model."""

from __future__ import annotations

from collections.abc import Sequence

from srrag.answer.select.quotes import ChosenSentence, Extract
from srrag.answer.write.cited import (
    MAX_ANSWER,
    MAX_CITES,
    MAX_EVIDENCE,
    MAX_SENTENCE_CHARS,
    CitedAnswer,
    CitedSentence,
    best_grade,
)
from srrag.core.grades import STUDIES

NUM_CORE = 2
"""Quotes in the first paragraph, of the one to three sentences that a model writes there."""
LOW_GRADES = ("D", "E")
DISAGREEMENT = "The papers quoted here do not agree on this."
"""Said of papers whose findings have opposite directions; it cites all of them."""
MIN_ABSENT_CHARS = 2
"""Numbers and letters say little about what is missing."""


def quoted_answer(extract: Extract, grades: Sequence[str]) -> CitedAnswer:
    """Best quotes, the others by grade, and what limits them; no quotes are an abstention.

    `grades` are those of the evidence, number by number. `missing` is the reason of an abstention.
    """
    core, others = extract.choices[:NUM_CORE], extract.choices[NUM_CORE:]
    return CitedAnswer(
        answer=[_sentence(choice.text, choice.cites) for choice in core][:MAX_ANSWER],
        evidence=_by_grade(others, grades)[:MAX_EVIDENCE],
        limits=_opposed(extract),
        insufficient=not extract.choices,
        missing="" if extract.choices else _missing(extract)[:600],
    )


def _missing(extract: Extract) -> str:
    """Say how much of the question the evidence covers and what it lacks; never empty."""
    covered = f"{extract.coverage:.0%}"
    told = [] if covered == "0%" else [f"The best passage covers {covered} of the question."]
    if extract.unnamed:
        told.append(f"What could be quoted holds no word of “{extract.unnamed}”.")
    if words := [word for word in extract.absent if len(word) > MIN_ABSENT_CHARS]:
        told.append(f"Nowhere in the evidence: {', '.join(words)}.")
    return " ".join(told) or "Nothing in the evidence speaks of the question."


def _by_grade(choices: Sequence[ChosenSentence], grades: Sequence[str]) -> list[CitedSentence]:
    """Quotes from the highest grade to the lowest; the first of each says what it is."""
    graded = [(best_grade(choice.cites, grades), choice) for choice in choices]
    sentences: list[CitedSentence] = []
    last = ""
    for grade, choice in sorted(graded, key=lambda pair: pair[0]):
        lead = f"{_named(grade)}: " if grade != last else ""
        sentences.append(_sentence(lead + choice.text, choice.cites))
        last = grade
    return sentences


def _opposed(extract: Extract) -> list[CitedSentence]:
    """Say that two papers disagree on the outcome, if two quotes of the core do."""
    if not extract.differ:
        return []
    return [_sentence(DISAGREEMENT, extract.differ)]


def low_grade_note(grades: Sequence[str]) -> str:
    """Say that none of the quoted evidence, of these grades, has a high grade; "" if some has."""
    best = best_grade(range(1, len(grades) + 1), grades)
    if best not in LOW_GRADES:
        return ""
    return f"Nothing quoted here is above grade {best} ({STUDIES[best]})."


def _named(grade: str) -> str:
    return f"Grade {grade}, {STUDIES[grade]}" if grade in STUDIES else "Without a grade"


def _sentence(text: str, cites: Sequence[int]) -> CitedSentence:
    return CitedSentence(text=text[:MAX_SENTENCE_CHARS], cites=list(cites[:MAX_CITES]))
