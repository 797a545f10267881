"""Sentences of an evidence window as they are shown: without headings, tables and marks."""

import re
from typing import Literal, NamedTuple

from srrag.reading.sentences import sentence_spans

Role = Literal["conclusion", "result", "background", "method", ""]


class Sentence(NamedTuple):
    """A sentence as shown, and the part of a paper that it stands in where that is known."""

    text: str
    role: Role


_ROLES: tuple[tuple[Role, str], ...] = (
    ("method", r"outcomes? measures?|main outcomes?|(?:study|trial) (?:design|selection)"),
    ("conclusion", r"conclusions?|recommendations?|interpretation|summary|key points?"),
    ("conclusion", r"clinical (?:implications?|relevance|messages?|recommendations?)"),
    ("result", r"results?|(?:main |key )?findings?"),
    ("method", r"methods?|methodology|design|setting|participants|patients|interventions?"),
    ("method", r"subjects|materials|measures?|measurements?|data (?:sources?|extraction)"),
    ("background", r"background|introduction|objectives?|aims?|purpose|context|rationale"),
    ("background", r"hypothesis|importance|questions?|scope"),
)
_ROLE = [(role, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for role, words in _ROLES]
_LABEL = re.compile(r"([A-Z][A-Za-z]+(?:[ /&][A-Za-z]+){0,3})[:.] +(?=\S)")
_ITEM = re.compile(r"(?:[-*+•‣▪]|\d{1,3}[.)])[ \t]+")
_HEADING = re.compile(r"#{1,6}(?:[ \t]+|$)")
_RULE = re.compile(r"[-=*_ \t]{3,}$")
_BOLD = re.compile(r"(\*\*|__)(?=\S)([^\n*_]+?)(?<=\S)\1")
_BRACKETED_NUMBER = re.compile(
    r"[\[【［][ \u200b\ufeff]{0,3}\^?(\d(?:[\d ,;–&-]|and){0,40})[\]】］]"
)


def plain(text: str) -> str:
    """Text on one line without emphasis marks, with numbers in brackets turned into (1).

    Answers carry markers like [1]; no text may look as if it carried one.
    """
    text = _BRACKETED_NUMBER.sub(r"(\1)", text)
    if "**" in text or "__" in text:
        text = _BOLD.sub(r"\2", text)
    return " ".join(text.replace("`", "").split())


def section_role(name: str) -> Role:
    """Part of a paper that a heading or label names, "" if none."""
    return next((role for role, pattern in _ROLE if pattern.search(name)), "")


def split_sentences(text: str, section: str = "") -> list[Sentence]:
    """Split a window into sentences; headings, table rows and code marks are left out.

    The role comes from the last heading, else from a label such as "Results:" that opens a
    sentence, else from the last name of the section path. Linear in the number of characters.
    """
    role = section_role(section.rpartition(">")[2])
    sentences: list[Sentence] = []
    for kind, segment in _segments(text):
        if kind == "heading":
            role = section_role(segment) or role
            continue
        for sentence in cut_sentences(plain(segment)):
            label = _LABEL.match(sentence)
            named = section_role(label[1]) if label else ""
            if label and named:
                role = named
                sentences.append(Sentence(sentence[label.end() :], role))
            else:
                sentences.append(Sentence(sentence, role))
    return sentences


def _segments(text: str) -> list[tuple[str, str]]:
    """Headings, and runs of prose: paragraphs with their lines joined, and list items."""
    segments: list[tuple[str, list[str]]] = []
    closed = True
    for raw in text.split("\n"):
        line = raw.strip()
        heading = _HEADING.match(line)
        if heading:
            segments.append(("heading", [line[heading.end() :]]))
        if heading or not line or "|" in line or _RULE.match(line) or line.startswith("```"):
            closed = True
            continue
        line = line.lstrip("> ")
        item = _ITEM.match(line)
        if closed or item:
            segments.append(("prose", []))
            closed = False
        segments[-1][1].append(line[item.end() :] if item else line)
    return [(kind, " ".join(lines)) for kind, lines in segments]


def cut_sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return [text[start:end] for start, end in sentence_spans(text)]
