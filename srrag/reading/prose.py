"""Sentences of an evidence window as they are shown: without headings, tables and marks."""

import re
from typing import Literal, NamedTuple

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
_STOP = re.compile(r"[.!?][\"'”’)\]]*\s+")
_ABBREVIATION = re.compile(
    r"(?:\b(?:et al|vs|figs?|tabs?|eqs?|refs?|nos?|vol|pp?|dr|prof|mr|mrs|ms|st|e\.g|i\.e|cf|ca"
    r"|approx|resp|incl|etc|suppl|sec|ch|ed|eds)|(?:\b[A-Za-z]\.)+[A-Za-z])$",
    re.IGNORECASE,
)
_ABBREVIATION_CHARS = 12


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
    """Cut at full stops that a capital, digit or opening mark follows, but for abbreviations."""
    sentences = []
    start = 0
    for stop in _STOP.finditer(text):
        after = text[stop.end() : stop.end() + 1]
        if not (after.isupper() or after.isdigit() or after in tuple("\"'“‘([")):
            continue
        before = text[max(start, stop.start() - _ABBREVIATION_CHARS) : stop.start()]
        if text[stop.start()] == "." and _abbreviates(before, after):
            continue
        sentences.append(text[start : stop.end()].strip())
        start = stop.end()
    if rest := text[start:].strip():
        sentences.append(rest)
    return sentences


def _abbreviates(before: str, after: str) -> bool:
    """Whether a stop ends an abbreviation: "no" and "p" are words unless a number follows."""
    found = _ABBREVIATION.search(before)
    if not found:
        return False
    numbered = found[0].casefold() in ("no", "nos", "p", "pp", "ed", "ca", "ms", "ch", "st", "sec")
    return after.isdigit() or not numbered
