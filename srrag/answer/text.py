"""An answer as plain text: for a terminal, for Python, and for clients of chats."""

from __future__ import annotations

import textwrap

from srrag.answer.evidence import Paper
from srrag.answer.record import AnswerRecord

STATE_LINES = {"answered": "", "partly": "Answered in part.", "not": ""}
"""An answer that is none says so itself."""


def remarks(answer: AnswerRecord) -> list[str]:
    """What stands between an answer and its papers, a paragraph each."""
    head = STATE_LINES[answer.state]
    option = f"Chosen: {answer.option}" if answer.option else ""
    missing = f"Missing: {answer.missing}" if answer.missing else ""
    notes = [f"Note: {note.text}" for note in answer.notes]
    return [each for each in (head, option, missing, *notes) if each]


def paper_line(paper: Paper) -> str:
    """The numbers of a paper, what a reader must know of its publication, its grade and source."""
    numbers = "".join(f"[{number}]" for number in paper.numbers)
    status = f" {paper.status.upper()}" if paper.status else ""
    year = f", {paper.year}" if paper.year else ""
    source = f"PMID {paper.pmid}" if paper.pmid else paper.source_id
    grade = f"grade {paper.grade or '–'}"
    return f"{numbers}{status} {grade}  {paper.title} ({source}{year})"


def beside(answer: AnswerRecord, width: int) -> str:
    """What follows the words of an answer: remarks and papers; a star marks what is cited.

    Lines are at most `width` characters long.
    """
    if answer.error:
        return f"No answer: {answer.error}"
    lines = []
    for each in remarks(answer):
        lines += [textwrap.fill(each, width), ""]
    for paper in answer.papers:
        star = "*" if paper.cited else " "
        lines.append(star + textwrap.shorten(paper_line(paper), width - 1, placeholder=" …"))
    return "\n".join(lines)
