"""Evidence grades A to E: pure functions on a document's metadata and text (SR-RAG, section 4.1).

A guidelines and expert consensus, B systematic reviews and meta-analyses, C randomised controlled
trials, D cohort studies, E all other work. A document whose design is unknown stays ungraded (""):
it counts as E wherever a grade is needed and is shown as ungraded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from srrag.corpus.abstract import drop_claims, methods_statement
from srrag.corpus.grade_rules import DECISIVE_RULES, first_hit

GRADES = "ABCDE"

_TYPES: dict[str, str] = {
    "retracted publication": "E",  # a retracted trial is no evidence, whatever its design
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


def effective_grade(grade: str) -> str:
    """Return the grade to use: an ungraded document or window counts as E."""
    return grade if len(grade) == 1 and grade in GRADES else "E"


def given_grade(value: object) -> str:
    """Return a valid grade from a given value in either case ("a", "Grade A"), else ""."""
    bare = str(value).strip().upper().removeprefix("GRADE").strip(" :")
    return bare if len(bare) == 1 and bare in GRADES else ""


def grade_by_type(types: Sequence[str]) -> Grading | None:
    """Grade by the PubMed publication types that determine the design."""
    known = {kind.casefold().replace("randomised", "randomized"): kind for kind in types}
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

    Without any of them it is ungraded. A rule that finds a guideline, a protocol, a systematic
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
            ruled = grade_by_rules(title, text)
            if ruled and (found is None or ruled.source.removeprefix("rule:") in DECISIVE_RULES):
                found = ruled
    if found is None:
        found = _by_open_type(types) or UNGRADED
    return Grading(found.grade, found.source, found.evidence, note)


_CONTROL = frozenset(["case-control studies", "cross-sectional studies"])


def _by_open_type(types: Sequence[str]) -> Grading | None:
    known = {kind.casefold(): kind for kind in types}
    name = next((name for name in _OPEN_TYPES if name in known), None)
    return None if name is None else Grading("E", "publication_type", known[name])
