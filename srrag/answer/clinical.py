"""What a clinician reads of an answer in ten seconds: facts about its evidence, none a guess.

With them go its papers, as lines of text and for reference managers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from srrag.algo.terms import guess_language
from srrag.answer.evidence import Evidence, Paper
from srrag.answer.write.cited import without_lead
from srrag.core.standing import GRADES, STUDIES, joined, kinds_of
from srrag.llm.completion import Rules
from srrag.reading.people import contradiction, traits
from srrag.reading.prose import plain

if TYPE_CHECKING:
    from srrag.answer.record import AnswerRecord

LOWER = "Its first sentence is from a lower grade than others cited: read those too."
MAX_LINES, MAX_LINE_WORDS = 2, 40
MAX_LANGUAGE_CHARS = 4000
"""Of the evidence, from which its language is told."""
VOUCHED = ("publication_type", "mesh", "metadata")
"""Sources of a grade that stand outside the document's own wording: its index, or who added it."""
_NAMES_ITSELF = re.compile(
    r"\b(?:(?:clinical|practice|treatment|management|evidence-based) guidelines?"
    r"|guidelines? (?:for|on|of|from)|(?:consensus|position) (?:statement|paper|stand|document)s?"
    r"|expert consensus|delphi consensus|: (?:a )?guideline)\b",
    re.IGNORECASE,
)
_ABOUT_ONE = re.compile(
    r"\b(?:adheren\w+|complian\w+|implement\w+|impact|awareness|according to|based on|concordan\w+"
    r"|apprais\w+|quality of|trial|survey|cohort|protocol)\b",
    re.IGNORECASE,
)
_CHANNELS = {
    "dense": "its meaning is close to the question", "sparse": "it uses the question’s words",
    "graph": "the evidence graph leads to it", "hyde": "it resembles a passage made up to search",
}  # fmt: skip


@dataclass(frozen=True)
class BottomLine:
    """A sentence of the answer with what it cites."""

    text: str
    citations: tuple[int, ...]


@dataclass(frozen=True)
class AnswerCertainty:
    """How sure an answer is: the kind of its papers, counted and not judged.

    `grade` is the best that the first sentence of the bottom line cites, `claimed` says that it is
    only a document's own claim, `sources` counts the papers that the answer cites.
    """

    grade: str
    study: str
    claimed: bool
    sources: int
    sentence: str


@dataclass(frozen=True)
class UntoldPoint:
    """A point that the answer leaves open; `kind` names the rule that found it."""

    kind: str
    text: str


@dataclass(frozen=True)
class PaperReading:
    """A piece of evidence: why it is there, and whether it only claims to be a guideline."""

    number: int
    because: str
    claims: str


@dataclass(frozen=True)
class ClinicalReading:
    """All that the page shows of an answer, beside its text and evidence.

    `language` says that the question is in another language than its evidence, "" if not. `text`
    is the whole as plain text.
    """

    heading: str
    bottom_line: tuple[BottomLine, ...]
    certainty: AnswerCertainty
    untold: tuple[UntoldPoint, ...]
    papers: tuple[PaperReading, ...]
    language: str
    references: tuple[str, ...]
    text: str
    ris: str
    bibtex: str


def clinical_reading(answer: AnswerRecord) -> ClinicalReading:
    """Read an answer; an abstention has neither bottom line nor points nor references."""
    papers = answer.papers if answer.state != "not" else ()
    cited = [paper for paper in papers if paper.cited]
    numbers = {number for each in answer.sentences for number in each.citations}
    lines = _bottom_line(answer) if cited else ()
    points = tuple(_untold(answer, papers, numbers)) if cited else ()
    language = other_language(answer.question, [item.text for item in answer.evidence])
    references = tuple(reference_line(paper, numbers) for paper in cited)
    return ClinicalReading(
        "Not enough evidence" if answer.state == "not" else "Bottom line",
        lines,
        _certainty(answer, cited, lines),
        points,
        _papers(answer),
        language,
        references,
        _as_text(answer, language, points, references),
        as_ris(cited),
        as_bibtex(cited),
    )


def _bottom_line(answer: AnswerRecord) -> tuple[BottomLine, ...]:
    """The first sentence of the answer; of quotes the second too, where both are short."""
    lines = [
        BottomLine(without_lead(each.text), each.citations)
        for each in answer.sentences
        if each.part == "answer" and each.citations
    ]
    most = MAX_LINES if answer.model == Rules().name else 1
    words = sum(line.text.count(" ") + 1 for line in lines[:most])
    return tuple(lines[: most if words <= MAX_LINES * MAX_LINE_WORDS else 1])


def _certainty(
    answer: AnswerRecord, cited: Sequence[Paper], lines: Sequence[BottomLine]
) -> AnswerCertainty:
    first = {number for line in lines[:1] for number in line.citations}
    behind = [paper for paper in cited if first.intersection(paper.numbers)] or cited
    counts = {
        grade: number
        for grade in (*GRADES, "")
        if (number := sum(paper.grade == grade for paper in cited))
    }
    best = next((grade for grade in counts if grade in {paper.grade for paper in behind}), "")
    top = [paper for paper in behind if paper.grade == best]
    claimed = best == "A" and all(claimed_guideline(paper, answer.evidence) for paper in top)
    rests = f"The answer rests on {kinds_of(counts)}." if counts else ""
    lower = LOWER if counts and best != next(iter(counts)) else ""
    sentence = " ".join(filter(None, (rests, lower)))
    return AnswerCertainty(best, STUDIES.get(best, ""), claimed, len(cited), sentence)


def _untold(answer: AnswerRecord, papers: Sequence[Paper], numbers: set[int]) -> list[UntoldPoint]:
    """What an answer that cites these numbers does not tell, what weighs most first."""
    found = {f"[{min(numbers.intersection(each.numbers) or each.numbers)}]": each
             for each in papers}  # fmt: skip
    cited = {mark: paper for mark, paper in found.items() if paper.cited}
    only = "Only one paper is cited: the answer stands on it alone."
    return [
        *([UntoldPoint("single", only)] if len(cited) == 1 else []),
        *_standings(cited),
        *_people(answer, cited),
        *_guideline(answer, found),
        _age(papers),
    ]


def _standings(cited: Mapping[str, Paper]) -> list[UntoldPoint]:
    """Cited papers that are not in order; where no build looked, a note of the answer says so."""
    return [
        UntoldPoint("standing", f"{mark} is {paper.status}.")
        for mark, paper in cited.items()
        if paper.status
    ]


def _people(answer: AnswerRecord, cited: Mapping[str, Paper]) -> list[UntoldPoint]:
    """Cited papers that are about animals, or about people that cannot be who was asked about."""
    asked, points = traits(answer.question), []
    for mark, paper in cited.items():
        items = [answer.evidence[number - 1] for number in paper.numbers]
        text = "\n".join([paper.title, *(f"{each.section}\n{each.text}" for each in items)])
        if other := contradiction(asked, paper.title, text):
            told = f"{mark} is about others than you asked about: “{other.phrase}”."
            points.append(UntoldPoint("other", told))
    return points


def _guideline(answer: AnswerRecord, found: Mapping[str, Paper]) -> list[UntoldPoint]:
    """That no guideline or review stands behind it, and which document only claims to be one."""
    said = {mark: claimed_guideline(paper, answer.evidence) for mark, paper in found.items()}
    points = [
        UntoldPoint("claims_guideline", f"{mark} {said[mark]}.")
        for mark, paper in found.items()
        if said[mark] and (paper.cited or paper.grade == "A")
    ]
    vouched = [paper for mark, paper in found.items() if not said[mark]]
    if any(paper.grade == "A" and paper.cited for paper in vouched):
        return points
    grades = {paper.grade for paper in vouched}
    if "A" in grades:
        return [*points, UntoldPoint("guideline_uncited", "A guideline was found, but not cited.")]
    what = "No guideline" if "B" in grades else "No guideline and no systematic review"
    return [*points, UntoldPoint("no_guideline", f"{what} on this was found in this library.")]


def _age(papers: Sequence[Paper]) -> UntoldPoint:
    """The newest year cited, and a newer one that was found."""
    newest = max(paper.year for paper in papers if paper.cited)
    found = max(paper.year for paper in papers)
    if not newest:
        return UntoldPoint("year", "When the cited papers appeared is not known.")
    later = f"; the newest paper found is of {found}" if found > newest else ""
    return UntoldPoint("year", f"Nothing cited is newer than {newest}{later}.")


def claimed_guideline(paper: Paper, evidence: Sequence[Evidence]) -> str:
    """Say that a document only calls itself a guideline; "" for one that is, or makes no claim.

    Grade A that was read from title and wording is a claim, and so is a title that says guideline
    on a document of another grade.
    """
    if paper.grade == "A":
        source = evidence[paper.numbers[0] - 1].grade_source.split(":")[0]
        return "" if source in VOUCHED else "calls itself a guideline: only its own wording says so"
    title = plain(paper.title)
    names = _NAMES_ITSELF.search(title) and not _ABOUT_ONE.search(title)
    kind = f"graded {paper.grade}" if paper.grade else "without a grade"
    return f"calls itself a guideline, but is {kind}" if names else ""


def _papers(answer: AnswerRecord) -> tuple[PaperReading, ...]:
    claims = {n: claimed_guideline(paper, answer.evidence)
              for paper in answer.papers for n in paper.numbers}  # fmt: skip
    reasons = {each["unit_id"]: each for each in answer.why or ()}
    return tuple(
        PaperReading(item.number, _because(item, reasons.get(item.unit_id)), claims[item.number])
        for item in answer.evidence
    )


def _because(item: Evidence, why: Mapping[str, Any] | None) -> str:
    """Say what found a piece of evidence; "" where nothing tells."""
    if why is None:
        return ""
    channels = dict.fromkeys(find["channel"] for find in why["found"])
    reasons = [_CHANNELS[each] for each in _CHANNELS if each in channels]
    if item.grade == "A" and any(f.get("track") == "guidelines" for f in why["found"]):
        reasons.append("it was found among the guidelines")
    return f"Here because {joined(reasons)}." if reasons else ""


def other_language(question: str, texts: Sequence[str]) -> str:
    """A sentence on the two languages, "" if they are one, or either cannot be told."""
    asked = guess_language(question)
    found = guess_language(" ".join(texts)[:MAX_LANGUAGE_CHARS])
    if not asked or not found or asked == found:
        return ""
    return f"Your question seems to be in {asked}; the papers here are in {found}. Ask in {found}."


def _as_text(
    answer: AnswerRecord, language: str, points: Sequence[UntoldPoint], references: Sequence[str]
) -> str:
    """The answer with its remarks as plain text, to be pasted into a note."""
    from srrag.answer.record import remarks

    body = [answer.question, "", answer.answer, ""]
    body += [line for each in (language, *remarks(answer)) if each for line in (each, "")]
    if points:
        body += ["What this does not tell", *(f"- {point.text}" for point in points), ""]
    if references:
        body += ["Sources", *references, ""]
    return "\n".join([*body, "Answered from graded evidence by a machine. Not medical advice."])


_TEX = {"\\": r"\textbackslash{}", **{each: f"\\{each}" for each in "&%$#_{}"},
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}  # fmt: skip
_PUBMED = "https://pubmed.ncbi.nlm.nih.gov/{}/"


def as_ris(papers: Sequence[Paper]) -> str:
    """Records of RIS: title, year, PMID with its link, grade as a note; no author is known."""
    return "".join(_record(paper) for paper in papers)


def _record(paper: Paper) -> str:
    fields = [("TY", "JOUR"), ("TI", _title(paper))]
    fields += [("PY", str(paper.year))] if paper.year else []
    fields += [("AN", paper.pmid), ("UR", _PUBMED.format(paper.pmid))] if _pmid(paper) else []
    fields += [("ID", _one_line(paper.source_id)), ("N1", _one_line(_note(paper)))]
    return "".join(f"{name}  - {text}\r\n" for name, text in [*fields, ("ER", "")])


def as_bibtex(papers: Sequence[Paper]) -> str:
    """Entries of BibTeX, keyed by PMID or the library's own id."""
    return "\n".join(_entry(paper) for paper in papers)


def _entry(paper: Paper) -> str:
    key = f"pmid{paper.pmid}" if _pmid(paper) else re.sub(r"[^\w-]", "", paper.source_id)
    fields = {"title": f"{{{_tex(_title(paper))}}}"}
    if paper.year:
        fields["year"] = str(paper.year)
    if _pmid(paper):
        fields |= {"pmid": paper.pmid, "url": _PUBMED.format(paper.pmid)}
    fields["note"] = _tex(_note(paper))
    lines = "".join(f"  {name} = {{{text}}},\n" for name, text in fields.items())
    return f"@article{{{key or f'evidence{paper.numbers[0]}'},\n{lines}}}\n"


def reference_line(paper: Paper, cited: set[int]) -> str:
    """A reference as a line of text: numbers that the answer cites, title, year, PMID, grade."""
    marks = "".join(f"[{number}]" for number in paper.numbers if number in cited)
    parts = [_title(paper), str(paper.year or ""), f"PMID {paper.pmid}" if _pmid(paper) else "",
             _note(paper)]  # fmt: skip
    return f"{marks} " + ". ".join(part.rstrip(".") for part in parts if part) + "."


def _note(paper: Paper) -> str:
    grade = f"Grade {paper.grade} ({paper.study})" if paper.grade else "No grade"
    return f"{grade}; {paper.status}" if paper.status else grade


def _title(paper: Paper) -> str:
    return _one_line(plain(paper.title) or paper.source_id)


def _pmid(paper: Paper) -> bool:
    return re.fullmatch(r"\d+", paper.pmid) is not None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _tex(text: str) -> str:
    return "".join(_TEX.get(char, char) for char in _one_line(text))
