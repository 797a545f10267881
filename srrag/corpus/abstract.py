"""Select the text that may describe a document's design: abstract and methods statement."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADING = re.compile(r"^(#{1,6}) +(\S.*)$", re.MULTILINE)
_ABSTRACT_NAME = re.compile(r"(?:structured )?(?:abstract|summary)\b.{0,20}", re.IGNORECASE)
_METHODS_NAME = re.compile(
    r"\b(?:methods?|methodology|design|participants?|patients?|subjects?|setting|interventions?"
    r"|data sources?|study selection|materials?|procedures?|population|sample)\b",
    re.IGNORECASE,
)
_VIEWS_NAME = re.compile(  # the authors' interpretation
    r"\b(?:conclusions?|discussion|interpretation|significance|implications?|limitations?"
    r"|level of evidence|registration)\b",
    re.IGNORECASE,
)
_RUN_IN_VIEWS = re.compile(r"(?<=[.!?)] )conclusions?[.:] .*", re.IGNORECASE | re.DOTALL)
_PAST_NAME = re.compile(r"\b(?:background|introduction|context|rationale)\b", re.IGNORECASE)
_OWN_WORK = re.compile(
    r"\b(?:(?:this|present|our|current) (?:[\w-]+ ){0,3}(?:study|trial|protocol|paper|article"
    r"|report"
    r"|analysis)|we|aims?|objectives?|purpose)\b",
    re.IGNORECASE,
)
_ABSTRACT_CHARS = 6_000
_LEAD_CHARS = 1_500

# A sentence that states its own grade is no evidence of a design.
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*|\n")
_WRAP = re.compile(r"(?<!\n)\n(?![\n#|>*-])")
_CLAIM = re.compile(
    r"\b(?:(?i:evidence|recommendation|quality)[- ](?i:grade|level|class|tier)s?\b"
    r"|(?i:grade|level|class|tier)s?(?i: of)(?i: the)? (?i:evidence|recommendation)s?\b"
    r"|(?i:graded?|level|class|tier)(?i: as| is)?\s{0,3}[:=\-]?\s{0,3}[\"'(\[*]{0,3}[A-E]\b"
    r"|(?i:ignore|disregard)\b(?i:.{0,40}\b(?:instruction|rule|prompt)))"
)


@dataclass(frozen=True)
class AbstractSection:
    """A heading and the text up to the next heading; level 0 is text before any heading."""

    level: int
    heading: str
    text: str


def sections(text: str) -> list[AbstractSection]:
    """Cut Markdown at its headings."""
    marks = list(_HEADING.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), *([len(text)] if marks else [])]
    first = marks[0].start() if marks else len(text)
    lead = [AbstractSection(0, "", text[:first].strip())] if text[:first].strip() else []
    return lead + [
        AbstractSection(len(mark[1]), mark[2].strip(), text[mark.end() : end].strip())
        for mark, end in zip(marks, ends, strict=True)
    ]


def abstract_sections(text: str) -> list[AbstractSection]:
    """Return the sections of the abstract.

    This is the section of that name with its subsections; else the whole text if it has at most
    6,000 characters; else the lead and the openings of methods sections.
    """
    parts = sections(text)
    named = next((i for i, part in enumerate(parts) if _ABSTRACT_NAME.fullmatch(part.heading)), -1)
    if named >= 0:
        within = [parts[named]]
        for part in parts[named + 1 :]:
            if part.level <= parts[named].level:
                break
            within.append(part)
        if sum(len(part.text) for part in within) > 0:
            return [
                AbstractSection(part.level, part.heading, part.text[:_ABSTRACT_CHARS])
                for part in within
            ]
    if len(text) <= _ABSTRACT_CHARS:
        return parts
    return [
        AbstractSection(part.level, part.heading, part.text[:_LEAD_CHARS])
        for part in parts
        if part.level == 0 or _METHODS_NAME.search(part.heading)
    ]


def drop_claims(text: str) -> str:
    """Drop sentences in which a text grades itself ("Evidence grade: A") or gives orders."""
    unwrapped = _WRAP.sub(" ", text)
    kept = (part for part in _SENTENCE.findall(unwrapped) if not _CLAIM.search(part))
    return "".join(kept).strip()


def abstract_text(text: str) -> str:
    """Return the abstract without self-gradings, for a model that judges the design."""
    parts = [f"{part.heading}\n\n{part.text}".strip() for part in abstract_sections(text)]
    return drop_claims("\n\n".join(parts))[:_ABSTRACT_CHARS]


def methods_statement(text: str) -> str:
    """Return what the abstract says about the study itself.

    It leaves out conclusions, and keeps of the background, which reports other work, only sentences
    about "this study". Without a methods section it is the whole abstract up to "Conclusions."
    """
    parts = abstract_sections(text)
    if not any(_METHODS_NAME.search(part.heading) for part in parts):
        said = [f"{part.heading}. {_RUN_IN_VIEWS.sub('', part.text)}" for part in parts]
        return drop_claims("\n\n".join(said))
    said = [f"{part.heading}. {_on_itself(part)}" for part in parts]
    return drop_claims("\n\n".join(said))


def _on_itself(part: AbstractSection) -> str:
    if _METHODS_NAME.search(part.heading):
        return part.text
    if _VIEWS_NAME.search(part.heading):
        return ""
    if _PAST_NAME.search(part.heading) or not part.heading:
        return " ".join(s for s in _SENTENCE.findall(part.text) if _OWN_WORK.search(s))
    return part.text
