"""What a served library holds, and questions that its own titles ask."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, Field

from srrag.algo.terms import guess_language
from srrag.core.units import Units

MAX_READ = 20_000
"""Documents whose titles are read for examples."""
NUM_EXAMPLES = 3
_LANGUAGE_TEXTS = 40
_MAX_CHARS = 110
_EFFECT = re.compile(
    r"^(?:The )?(?:Comparative |Long-term |Short-term )?(?:Effects?|Impact|Influence) of "
    r"(?:an? |the )?"
    r"(?P<what>[^:?,.]{4,60}?) on (?P<on>[^:?.]{4,70}?)(?:[:.]| – |$)",
    re.IGNORECASE,
)
_GOOD = re.compile(
    r"^(?:The )?(?:Clinical )?(?:Effectiveness|Efficacy|Benefits?) of (?P<what>[^:?,.]{4,60}?) "
    r"(?:in|for|on) (?P<on>[^:?.]{4,70}?)(?:[:.]| – |$)",
    re.IGNORECASE,
)
_GUIDELINE = re.compile(
    r"^(?P<what>[^:?]{6,80}?): (?:a |an )?(?:[\w-]+ ){0,2}(?:guideline|consensus|recommendations)",
    re.IGNORECASE,
)
_ASKS = re.compile(r"^(?:Do|Does|Is|Are|Can|Should|When|How|What)\b[^:]{15,}\?$")


class LibraryFacts(BaseModel):
    """The papers of a build, by grade and year, and their language."""

    papers: int
    passages: int
    grades: dict[str, int] = Field(description='papers by grade; "" for none')
    oldest: int = Field(description="0 if no year is known")
    newest: int
    language: str = Field(description='"" if it cannot be told')
    examples: list[str] = Field(description="questions made of titles of this library")
    findings: int = Field(description="findings that a model read of them; 0 where none read")
    version: str


def library_facts(units: Units, findings: int, version: str) -> LibraryFacts:
    """Count the papers of a build, and make examples of the titles of up to MAX_READ documents.

    Documents with the same PMID, else the same title, are one paper.
    """
    documents = units.documents
    names = pc.if_else(pc.equal(documents["pmid"], ""), documents["title"], documents["pmid"])
    names = pc.if_else(pc.equal(names, ""), documents["doc_id"], names)
    grade, none = documents["grade"], pa.scalar(None, pa.string())
    graded = pc.if_else(pc.equal(grade, ""), none, grade)  # a copy without one hides no other's
    told = pa.table({"paper": names, "grade": graded}).group_by("paper")
    best = pc.fill_null(told.aggregate([("grade", "min")])["grade_min"], "")
    grades = best.value_counts().to_pylist()
    years = pc.filter(documents["year"], pc.greater(documents["year"], 0))
    spread = pc.min_max(years).as_py()
    texts = units.units["text"].slice(0, _LANGUAGE_TEXTS).to_pylist()
    read = documents.select(["title", "grade"]).slice(0, MAX_READ).to_pylist()
    return LibraryFacts(
        papers=sum(each["counts"] for each in grades),
        passages=len(units),
        grades={each["values"]: each["counts"] for each in sorted(grades, key=_by_grade)},
        oldest=spread["min"] or 0,
        newest=spread["max"] or 0,
        language=guess_language(" ".join(texts)),
        examples=example_questions(read),
        findings=findings,
        version=version,
    )


def _by_grade(each: dict[str, str]) -> tuple[bool, str]:
    return each["values"] == "", each["values"]


def example_questions(documents: Iterable[dict[str, str]]) -> list[str]:
    """Up to NUM_EXAMPLES questions of titles, the best grades first, else by hash of the title."""
    found: dict[str, tuple[str, str]] = {}
    for each in documents:
        if question := question_of(each["title"]):
            order = (each["grade"] or "F", hashlib.sha256(question.encode()).hexdigest())
            found[question] = min(found.get(question, order), order)
    chosen: list[str] = []
    for question in sorted(found, key=found.__getitem__):
        if not any(_alike(question, other) for other in chosen):
            chosen.append(question)
    return chosen[:NUM_EXAMPLES]


def _alike(one: str, other: str) -> bool:
    """Whether two questions share most of their words."""
    a, b = ({*re.findall(r"\w{4,}", text.casefold())} for text in (one, other))
    return len(a & b) > 0.5 * min(len(a), len(b))


def question_of(title: str) -> str:
    """The question that a title asks or answers; "" for a title of another form."""
    title = " ".join(title.split()).rstrip(".")
    patterns: Sequence[tuple[re.Pattern[str], str]] = (
        (_GUIDELINE, "What do guidelines recommend for {what}?"),
        (_EFFECT, "What is the effect of {what} on {on}?"),
        (_GOOD, "Is {what} effective for {on}?"),
    )
    for pattern, form in patterns:
        if match := pattern.match(title):
            words = {name: _lower(text.strip()) for name, text in match.groupdict().items()}
            question = form.format(**words)
            return question if len(question) <= _MAX_CHARS else ""
    return title if _ASKS.match(title) and len(title) <= _MAX_CHARS else ""


def _lower(words: str) -> str:
    """Words of a title as in a sentence: capitals stay in names that hold more than one."""
    return " ".join(w.lower() if w[:1].isupper() and w[1:].islower() else w for w in words.split())
