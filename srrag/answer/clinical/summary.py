"""The clinical reading of an answer: bottom line, certainty, match, what is not told, findings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srrag.answer.clinical.asked import AskedQuestion, asked_question, other_language
from srrag.answer.clinical.findings import QuotedFinding, quoted_findings
from srrag.answer.clinical.match import PartMatch, part_matches
from srrag.answer.clinical.paper import CitedPaper, claimed_guideline, here_because, papers_of
from srrag.answer.clinical.stance import (
    PapersAgree,
    PaperStance,
    agreement,
    direction_in,
    fitting,
    key_sentence,
    on_outcome,
    stances,
    stated,
)
from srrag.answer.clinical.untold import UntoldPoint, untold_points
from srrag.answer.select.candidates import LEANS
from srrag.answer.write.cited import without_lead
from srrag.core.grades import GRADES, STUDIES, kinds_of
from srrag.core.standing import mark
from srrag.llm.completion import Rules
from srrag.reading.prose import cut_sentences

_TEX = {"\\": r"\textbackslash{}", **{each: f"\\{each}" for each in "&%$#_{}"},
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}  # fmt: skip
_PUBMED = "https://pubmed.ncbi.nlm.nih.gov/{}/"


def as_ris(papers: Sequence[CitedPaper]) -> str:
    """Records of RIS: title, year, PMID with its link, grade as a note; no author is known."""
    return "".join(_record(paper) for paper in papers)


def _record(paper: CitedPaper) -> str:
    item = paper.item
    fields = [("TY", "JOUR"), ("TI", _one_line(paper.title or item["source_id"]))]
    fields += [("PY", str(item["year"]))] if item["year"] else []
    fields += [("AN", item["pmid"]), ("UR", _PUBMED.format(item["pmid"]))] if _pmid(item) else []
    fields += [("ID", _one_line(item["source_id"])), ("N1", _one_line(_note(paper)))]
    return "".join(f"{name}  - {text}\r\n" for name, text in [*fields, ("ER", "")])


def as_bibtex(papers: Sequence[CitedPaper]) -> str:
    """Entries of BibTeX, keyed by PMID or the library's own id."""
    return "\n".join(_entry(paper) for paper in papers)


def _entry(paper: CitedPaper) -> str:
    item = paper.item
    key = f"pmid{item['pmid']}" if _pmid(item) else re.sub(r"[^\w-]", "", item["source_id"])
    fields = {"title": f"{{{_tex(paper.title or item['source_id'])}}}"}
    if item["year"]:
        fields["year"] = str(item["year"])
    if _pmid(item):
        fields |= {"pmid": item["pmid"], "url": _PUBMED.format(item["pmid"])}
    fields["note"] = _tex(_note(paper))
    lines = "".join(f"  {name} = {{{text}}},\n" for name, text in fields.items())
    return f"@article{{{key or item['doc_id']},\n{lines}}}\n"


def reference_line(paper: CitedPaper) -> str:
    """A reference as a line of text: its numbers, title, year, PMID and grade."""
    item = paper.item
    marks = "".join(f"[{number}]" for number in paper.cited)
    parts = [paper.title or item["source_id"], str(item["year"] or ""),
             f"PMID {item['pmid']}" if _pmid(item) else "", _note(paper)]  # fmt: skip
    return f"{marks} " + ". ".join(part.rstrip(".") for part in parts if part) + "."


def _note(paper: CitedPaper) -> str:
    item = paper.item
    grade = f"Grade {item['grade']} ({item['study']})" if item["grade"] else "No grade"
    told = mark(item)
    return f"{grade}; {told}" if told else grade


def _pmid(item: Any) -> bool:
    return bool(re.fullmatch(r"\d+", item["pmid"] or ""))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _tex(text: str) -> str:
    return "".join(_TEX.get(char, char) for char in _one_line(text))


LOWER = "Its first sentence is from a lower grade than others cited: read those too."
MAX_LINES = 2
MAX_LINE_WORDS = 40
"""A longer quote is cut to its sentence on the outcome, where that one leans on no other."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class BottomLine:
    """A sentence of the answer with what it cites; `cut` where a quote is not shown whole."""

    text: str
    citations: tuple[int, ...]
    cut: bool
    says: str


@dataclass(frozen=True)
class AnswerCertainty:
    """How sure an answer is: the grade of its bottom line, its papers, what they say together.

    `grade` is the best that the first sentence of the bottom line cites, `claimed` says that it is
    only a document's own claim. `on_outcome` counts the papers, cited or not, that tell a direction
    for the asked outcome.
    """

    grade: str
    study: str
    claimed: bool
    sources: int
    grades: dict[str, int]
    found: int
    on_outcome: int
    says: str
    agree: str
    sentence: str


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
    match: tuple[PartMatch, ...]
    untold: tuple[UntoldPoint, ...]
    findings: tuple[QuotedFinding, ...]
    stances: tuple[PaperStance, ...]
    papers: tuple[PaperReading, ...]
    language: str
    references: tuple[str, ...]
    text: str
    ris: str
    bibtex: str


def clinical_reading(
    answer: Row, anchors: Mapping[str, Sequence[str]], why: Sequence[Row] = ()
) -> ClinicalReading:
    """Read an answer, the JSON of an Answer with the sources of its grades.

    `anchors` are the words of each part of its question, `why` the reasons for its evidence, in
    order. An abstention has neither bottom line nor findings. Rules read quotes; a model's answer
    says itself how far it goes, and no rule says what it lacks, or which way papers point.
    """
    asked = asked_question(answer["question"], anchors)
    said = () if answer["state"] == "not" else answer["sentences"]
    cited = {number for each in said for number in each["citations"]}
    papers = papers_of(answer["evidence"], cited)
    quoted = answer["model"] == Rules().name
    read = quoted and answer["state"] != "not"
    found = stances(asked, papers, [without_lead(s["text"]) for s in said]) if read else []
    agreed = agreement(asked, found)
    findings = quoted_findings(asked, said, papers, found, quoted=quoted)
    matches = part_matches(asked, papers) if quoted else []
    lines = _bottom_line(asked, said, papers, quoted=quoted)
    points = (
        []
        if answer["state"] == "not"
        else untold_points(asked, papers, findings, matches, agreed, quoted=quoted)
    )
    behind = [paper for paper in papers if paper.cited]
    return ClinicalReading(
        _heading(asked, answer, lines, papers),
        tuple(lines),
        _certainty(asked, papers, lines, found, agreed, quoted=quoted),
        tuple(matches),
        tuple(points),
        tuple(findings),
        tuple(found),
        tuple(_papers(papers, answer["evidence"], why)),
        other_language(answer["question"], [item["text"] for item in answer["evidence"]]),
        tuple(map(reference_line, behind)),
        _as_text(answer, lines, points, behind),
        as_ris(behind),
        as_bibtex(behind),
    )


def _bottom_line(
    asked: AskedQuestion, said: Sequence[Row], papers: Sequence[CitedPaper], *, quoted: bool
) -> list[BottomLine]:
    """The sentences that answer: of quotes those on the outcome first, of a model its first.

    Where another cited paper says otherwise, it stands second.
    """
    if not quoted:
        lead = [each for each in said if each["part"] == "answer" and each["citations"]]
        return [_line(asked, each, set()) for each in lead[:1]]
    on_question = zip(papers, fitting(asked, papers), strict=True)
    fits = {number for paper, fit in on_question if fit for number in paper.cited}
    lines = [_line(asked, each, fits) for each in said if each["citations"]]
    says = {line.text: _reports(asked, line, fits) for line in lines}
    telling = [line for line in lines if says[line.text]]
    near = [line for line in lines if on_outcome(asked, [line.text])[0]]
    best = (telling or near or lines)[:1]
    rest = sorted(telling[1:], key=lambda line: says[line.text] == says[best[0].text])
    words = sum(line.text.count(" ") + 1 for line in best + rest[:1])
    return [*best, *rest[:1]] if words <= MAX_LINES * MAX_LINE_WORDS else best


def _reports(asked: AskedQuestion, line: BottomLine, fits: set[int]) -> str:
    """What the words of a line say to the question, be it clear or not."""
    if not on_outcome(asked, [line.text])[0] or not fits & {*line.citations}:
        return ""
    return asked.answer_of(stated(asked, key_sentence(asked, line.text)).direction)


def _line(asked: AskedQuestion, sentence: Row, fits: set[int]) -> BottomLine:
    text = without_lead(sentence["text"])
    key = key_sentence(asked, text)
    told = on_outcome(asked, [key])[0] > 0 and bool(fits & {*sentence["citations"]})
    says = asked.answer_of(direction_in(asked, key)) if told else ""
    long = text.count(" ") >= MAX_LINE_WORDS and len(cut_sentences(text)) > 1
    cut = long and bool(says) and not LEANS.match(key)
    return BottomLine(key if cut else text, tuple(sentence["citations"]), cut, says)


def _heading(
    asked: AskedQuestion, answer: Row, lines: Sequence[BottomLine], papers: Sequence[CitedPaper]
) -> str:
    """What stands above the bottom line: whether it names what was asked, as far as can be told.

    Its words have to name the outcome, and a paper that it cites the people and the intervention.
    """
    if answer["state"] == "not":
        return "Not enough evidence"
    if answer["model"] != Rules().name:
        return "Bottom line"
    named = any(on_outcome(asked, [key_sentence(asked, line.text)])[0] for line in lines)
    cited = {number for line in lines for number in line.citations}
    behind = [paper for paper in papers if cited & {*paper.cited}]
    on_both = any(fitting(asked, behind, ("P", "I"))) or not behind
    return "Bottom line" if on_both and (named or not asked.O) else "Nearest that the papers say"


def _certainty(
    asked: AskedQuestion,
    papers: Sequence[CitedPaper],
    lines: Sequence[BottomLine],
    found: Sequence[PaperStance],
    agreed: PapersAgree,
    *,
    quoted: bool,
) -> AnswerCertainty:
    cited = [paper for paper in papers if paper.cited]
    first = {number for line in lines[:1] for number in line.citations}
    behind = [paper for paper in cited if first & {*paper.cited}]
    counts = {
        grade: number
        for grade in (*GRADES, "")
        if (number := sum(paper.item["grade"] == grade for paper in cited))
    }
    held = {paper.item["grade"] for paper in behind or cited}
    best = next((grade for grade in counts if grade in held), "")
    top = [paper for paper in behind or cited if paper.item["grade"] == best]
    claimed = bool(top) and all(claimed_guideline(paper) for paper in top) and best == "A"
    clear = sum(each.clear for each in found)
    mixed = all(direction_in(asked, each.sentence) != "unclear" for each in found)
    agree = _agree(agreed, clear, len(found), mixed) if quoted and (asked.O or found) else ""
    rests = f"The answer rests on {kinds_of(counts)}." if counts else ""
    lower = LOWER if counts and best != next(iter(counts)) else ""
    sentence = " ".join(filter(None, (rests, lower, agree)))
    return AnswerCertainty(
        best, STUDIES.get(best, ""), claimed, len(cited), counts, len(papers), len(found),
        agreed.says, agree, sentence,
    )  # fmt: skip


def _agree(agreed: PapersAgree, number: int, unclear: int, mixed: bool) -> str:
    """What papers of which so many speak clearly, and so many at all, say of the outcome.

    `mixed` says that each has a clear sentence, so that what is not clear is the paper as a whole.
    """
    if agreed.disagree:
        told = ", ".join(f"{len(numbers)} {name}" for name, numbers in agreed.sides)
        return f"The papers that speak of this outcome do not agree ({told})."
    if number > 1:
        return f"All {number} papers that speak clearly of this outcome say {agreed.says}."
    if number == 1:
        return "One paper speaks clearly of this outcome."
    if unclear:
        told = "One paper speaks" if unclear == 1 else f"{unclear} papers speak"
        one = "its sentences" if unclear == 1 else "the sentences of each"
        how = f", and {one} do not all say the same" if mixed else "; which way, no rule could read"
        return f"{told} of this outcome{how}."
    return "No direction for this outcome could be read from the papers."


def _papers(
    papers: Sequence[CitedPaper], evidence: Sequence[Row], why: Sequence[Row]
) -> list[PaperReading]:
    claims = {item["number"]: claimed_guideline(paper) for paper in papers for item in paper.items}
    reasons = {each["unit_id"]: each for each in why}
    return [
        PaperReading(
            item["number"],
            here_because(item, reasons.get(item["unit_id"])),
            claims[item["number"]],
        )
        for item in evidence
    ]


def _as_text(
    answer: Row,
    lines: Sequence[BottomLine],
    points: Sequence[UntoldPoint],
    cited: Sequence[CitedPaper],
) -> str:
    """The answer as plain text, to be pasted into a note."""
    told = [f"{line.text} {''.join(f'[{n}]' for n in line.citations)}" for line in lines]
    quoted = answer["model"] == Rules().name
    body = [answer["question"], "", *(told if quoted and told else [answer["answer"]]), ""]
    if points:
        body += ["What this does not tell", *(f"- {point.text}" for point in points), ""]
    if cited:
        body += ["Sources", *map(reference_line, cited), ""]
    return "\n".join([*body, "Answered from graded evidence by a machine. Not medical advice."])
