"""Evidence grades A to E: pure functions on a document's metadata and text (SR-RAG, section 4.1).

A guidelines and expert consensus, B systematic reviews and meta-analyses, C randomised controlled
trials, D cohort studies, E all other work. A document whose design is unknown stays ungraded (""):
it counts as E wherever a grade is needed and is shown as ungraded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from srrag.core.standing import each_type
from srrag.corpus.grade_rules import DECISIVE_RULES, first_hit

_HEADING = re.compile(r"^(#{1,6}) +(\S.*)$", re.MULTILINE)
_ABSTRACT_NAME = re.compile(  # with a word behind it, it names a part, as "Summary answer" does
    r"(?:structured )?(?:abstract(?: (?:and|in)\b.{0,20})?|summary)(?: ?[^\w ].{0,20})?",
    re.IGNORECASE,
)
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
_PAST_NAME = re.compile(
    r"\b(?:background|introduction|context|rationale|known already)\b", re.IGNORECASE
)
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


GRADES = "ABCDE"

_TYPES: dict[str, str] = {
    "retracted publication": "E",  # a retracted trial is no evidence, whatever its design
    "published erratum": "E",  # it mends a paper, and has its title
    "clinical trial protocol": "E",  # it announces a trial, and reports none
    "practice guideline": "A",
    "guideline": "A",
    "consensus development conference": "A",
    "consensus development conference, nih": "A",
    "consensus statement": "A",
    "systematic review": "B",
    "meta-analysis": "B",
    "network meta-analysis": "B",
    "randomized controlled trial": "C",
    "case reports": "E",
    "scoping review": "E",
    "editorial": "E",
    "news": "E",
    "interview": "E",
    "biography": "E",
    "historical article": "E",
    "randomized controlled trial, veterinary": "E",
    "observational study, veterinary": "E",
    "clinical trial, veterinary": "E",
    # Names from other sources. PubMed also lacks types that end in "cohort study".
    "clinical practice guideline": "A",
    "expert consensus": "A",
    "case report": "E",
    "case series": "E",
    "case-control study": "E",
    "cross-sectional study": "E",
    "narrative review": "E",
}
# Types that leave the design open: older systematic reviews are typed "Review" and nothing else,
# and cohort studies "Observational Study". They count only if no other source decides.
_OPEN_TYPES = ("observational study", "review", "letter", "comment")

# "Single-Blind Method" and "Random Allocation" are left out: indexers give them to blinded readings
# of images and to samples drawn at random.
_MESH: tuple[tuple[str, str], ...] = (
    ("double-blind method", "C"),
    ("cross-over studies", "C"),
    ("cohort studies", "D"),
    ("longitudinal studies", "D"),
    ("prospective studies", "D"),
    ("follow-up studies", "D"),
    ("case-control studies", "E"),
    ("cross-sectional studies", "E"),
    ("retrospective studies", "D"),
)
_HUMANS, _ANIMALS = "humans", "animals"


@dataclass(frozen=True)
class Grading:
    """A grade, its source and the words that led to it.

    `source` is "metadata", "publication_type", "mesh", "rule:NAME", "engine" or "none".
    """

    grade: str
    source: str
    evidence: str = ""
    note: str = ""


UNGRADED = Grading("", "none")


def given_grade(value: object) -> str:
    """Return a valid grade from a given value in either case ("a", "Grade A"), else ""."""
    bare = str(value).strip().upper().removeprefix("GRADE").strip(" :")
    return bare if len(bare) == 1 and bare in GRADES else ""


def grade_by_type(types: Sequence[str]) -> Grading | None:
    """Grade by the PubMed publication types that determine the design."""
    known = {
        name.replace("randomised", "randomized"): kind for name, kind in each_type(types).items()
    }
    for name, grade in _TYPES.items():
        if name in known:
            return Grading(grade, "publication_type", known[name])
    cohort = next((kind for name, kind in known.items() if name.endswith("cohort study")), None)
    return Grading("D", "publication_type", cohort) if cohort else None


def grade_by_mesh(mesh: Sequence[str]) -> Grading | None:
    """Grade by MeSH headings: animals without humans, blinding, cohort designs."""
    known = {term.split("/")[0].strip("* ").casefold(): term for term in mesh}
    if _ANIMALS in known and _HUMANS not in known:
        return Grading("E", "mesh", known[_ANIMALS])
    for name, grade in _MESH:
        if name in known:
            return Grading(grade, "mesh", known[name])
    return None


def grade_by_rules(title: str, text: str) -> Grading | None:
    """Grade by the words of the title and the methods statement; the body is ignored."""
    hit = first_hit({"title": drop_claims(title), "methods": methods_statement(text)})
    if hit is None:
        return None
    rule, words = hit
    return Grading(rule.grade, f"rule:{rule.name}", words)


def grade_document(
    title: str, text: str, given: object, types: Sequence[str], mesh: Sequence[str]
) -> Grading:
    """Grade a document by given grade, publication types, MeSH and rules, in this order.

    Without any of them it is ungraded. Of a letter or a comment no rule decides, since it has the
    words of the paper that it is about. A rule that finds a guideline, a protocol, a systematic
    review or randomisation overrides a MeSH heading of cohort work, which trials carry too.
    """
    note = ""
    if given not in (None, ""):
        if grade := given_grade(given):
            return Grading(grade, "metadata", str(given))
        note = f"given grade {str(given)[:40]!r} is none of A to E"
    found = grade_by_type(types)
    if found is None:
        found = grade_by_mesh(mesh)
        if found is None or found.grade == "D" or found.evidence.casefold() in _CONTROL:
            ruled = None if _is_letter(types) else grade_by_rules(title, text)
            if ruled and (found is None or ruled.source.removeprefix("rule:") in DECISIVE_RULES):
                found = ruled
    if found is None:
        found = _by_open_type(types) or UNGRADED
    return Grading(found.grade, found.source, found.evidence, note)


_CONTROL = frozenset(["case-control studies", "cross-sectional studies"])


def _is_letter(types: Sequence[str]) -> bool:
    return not each_type(types).keys().isdisjoint(("letter", "comment"))


def _by_open_type(types: Sequence[str]) -> Grading | None:
    known = each_type(types)
    name = next((name for name in _OPEN_TYPES if name in known), None)
    return None if name is None else Grading("E", "publication_type", known[name])
