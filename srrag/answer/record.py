"""The answer to a question, made once from the row that a pipeline wrote; every face renders it.

A field of an answer stands here, and in the renderers that show it: a face names the fields that it
leaves out, and why, beside its renderer (`tests/contract/test_faces.py`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import TypeAdapter

from srrag.answer.clinical import ClinicalReading
from srrag.answer.evidence import (
    Evidence,
    LeftOutPaper,
    Paper,
    evidence_of,
    made,
    papers_of,
    told,
)
from srrag.core.standing import standing_note
from srrag.core.units import Units

Row = dict[str, Any]
_SAME = ("answer", "state", "verdict", "missing", "model")
"""Columns that are fields as they are."""
State = Literal["answered", "partly", "not"]
Verdict = Literal["yes", "no", "no difference", "mixed", "unclear", ""]
Part = Literal["answer", "evidence", "limits"]
FindingKind = Literal["result", "recommendation", "planned", "background", "method"]
NoteKind = Literal["publication", "evidence", "support", "degraded"]


@dataclass(frozen=True, kw_only=True)
class TextPlace:
    """A stretch of a piece of evidence: characters `start` to `end` of its text."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class AnswerSentence:
    """A sentence of an answer, with the numbers of the evidence that it cites."""

    text: str
    part: Part = "answer"
    citations: tuple[int, ...] = ()
    places: tuple[TextPlace, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AnswerFinding:
    """What a paper says to the question, and characters `start` to `end` of the evidence for it."""

    text: str
    kind: FindingKind
    number: int
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class AnswerNote:
    """A remark for the reader: on publication status, on other people or interventions than asked,
    on the evidence, on what the check of support dropped or corrected, or on steps that failed.
    """

    kind: NoteKind
    text: str


@dataclass(frozen=True, kw_only=True)
class UnsupportedSentence:
    """A sentence that did not stand as written; `repaired` stands instead, if it is not ""."""

    text: str
    fault: str
    citations: tuple[int, ...] = ()
    reason: str = ""
    repaired: str = ""


@dataclass(frozen=True, kw_only=True)
class AnswerSupport:
    """What became of the sentences when they were checked against what they cite."""

    sentences: int
    kept_sentences: int
    repaired_sentences: int
    unsupported: tuple[UnsupportedSentence, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FailedStep:
    """A step that an answer went on without, and why."""

    step: str
    fault: str


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """A step of the pipeline; its time is that of the whole batch."""

    step: str
    ms: float
    rows_in: int
    rows_out: int
    items: int | None = None
    """how many items it wrote for this question, where it wrote a list"""
    fault: str | None = None


@dataclass(frozen=True, kw_only=True)
class AnswerRecord:
    """An answer with all that it rests on; None and empty where a pipeline has nothing to say."""

    question: str
    answer: Annotated[str, told("the whole text, with citation numbers in brackets")] = ""
    state: Annotated[State, told("whether the evidence answers the question")] = "not"
    verdict: Annotated[
        Verdict,
        told('the answer to a question of yes or no; "" for others, and where nobody read one'),
    ] = ""
    choice: Annotated[
        int | None, told("index of the option chosen, if the question has options")
    ] = None
    option: str | None = None
    sentences: tuple[AnswerSentence, ...] = ()
    findings: tuple[AnswerFinding, ...] = ()
    missing: Annotated[str, told("what the evidence does not hold")] = ""
    evidence: tuple[Evidence, ...] = ()
    papers: tuple[Paper, ...] = ()
    left_out: tuple[LeftOutPaper, ...] = ()
    notes: tuple[AnswerNote, ...] = ()
    support: Annotated[AnswerSupport | None, told("None if no step checked it")] = None
    degraded: tuple[FailedStep, ...] = ()
    error: Annotated[str, told("why the question has no answer at all")] = ""
    model: Annotated[str, told("who wrote it: a model, or rules")] = ""
    usage: Annotated[
        dict[str, Any] | None, told("calls and tokens of the batch of `batch_rows` questions")
    ] = field(default=None, compare=False)
    batch_rows: int = field(default=1, compare=False)
    trace: tuple[StepTime, ...] = field(default=(), compare=False)
    why: Annotated[
        tuple[dict[str, Any], ...] | None,
        told("who found each piece of evidence, and where (where a trace is asked for)"),
    ] = None
    expansion: Annotated[
        dict[str, Any] | None,
        told("what was made of the question before searching (where a trace is asked for)"),
    ] = None
    clinical: Annotated[
        ClinicalReading | None,
        told("what a clinician reads first (`options.clinical` of the HTTP API)"),
    ] = None
    off: Annotated[tuple[str, ...], told("steps that do nothing without a model")] = ()
    rewritten_from: Annotated[
        str | None, told("the follow-up as it was asked, where `question` was made of it")
    ] = None
    id: Annotated[str, told("of the request, or of the question")] = field(
        default="", compare=False
    )
    pipeline: str = field(default="", compare=False)
    version: Annotated[str, told("identity of the build that the answer rests on")] = ""

    @classmethod
    def of(
        cls,
        row: Mapping[str, Any],
        /,
        *,
        units: Units | None = None,
        explained: bool = False,
        terms: Mapping[str, Any] | None = None,
        **known: Any,
    ) -> Self:
        """Make the answer of an answered or rejected row; columns that it lacks say nothing.

        `units` tell the source of each document and of its grade. `explained` adds what was made of
        the question and why each piece of evidence is there, with the `terms` of BETR. `known` are
        fields that no row holds, such as who answered.
        """
        if reject := row.get("reject"):
            error = f"{reject['stage']}: {reject['detail']}"
            named = {"id": row.get("query_id", ""), **known}
            return cls(question=row["text"], error=error, **named)
        numbers = {item["evidence_id"]: n for n, item in enumerate(row["evidence"], start=1)}
        sentences = tuple(_sentence(each, numbers) for each in row["sentences"])
        evidence = evidence_of(row, numbers, units)
        left_out = [made(LeftOutPaper, each) for each in row.get("left_out") or ()]
        lost = degraded(row)
        choice, option = _chosen(row)
        findings = [
            made(AnswerFinding, each, number=numbers.get(each["evidence_id"], 0))
            for each in row.get("findings") or ()
        ]
        return made(
            cls, {name: row[name] for name in _SAME if name in row},
            question=row["text"], choice=choice, option=option, sentences=sentences,
            findings=findings, evidence=evidence, left_out=left_out, degraded=lost,
            papers=papers_of(evidence, {n for each in sentences for n in each.citations}),
            notes=_notes(row, sentences, evidence, left_out, lost),
            support=_support(row, numbers),
            trace=step_times(row.get("trace") or ()),
            **{"id": row.get("query_id", ""), **known},
            **(_provenance(row, terms) if explained else {}),
        )  # fmt: skip

    @property
    def cited(self) -> tuple[Evidence, ...]:
        """The evidence that some sentence cites."""
        numbers = {number for each in self.sentences for number in each.citations}
        return tuple(item for item in self.evidence if item.number in numbers)

    @property
    def json(self) -> Row:
        """The answer as every program gets it: `srrag ask`, the HTTP API, Python and MCP."""
        found: Row = _adapter().dump_python(self, mode="json")
        return found

    @classmethod
    def schema(cls) -> Row:
        """The JSON Schema of `json`."""
        return _adapter().json_schema(mode="serialization")


@cache
def _adapter() -> TypeAdapter[AnswerRecord]:
    return TypeAdapter(AnswerRecord)


def step_times(trace: Sequence[Mapping[str, Any]]) -> tuple[StepTime, ...]:
    """The steps of a trace."""
    return tuple(
        StepTime(
            step=item["step"],
            ms=round(1000 * item["seconds"], 2),
            rows_in=item["rows_in"],
            rows_out=item["rows_out"],
            items=item["items"] if item["items"] >= 0 else None,
            fault=item.get("fault") or None,
        )
        for item in trace
    )


def _provenance(row: Mapping[str, Any], terms: Mapping[str, Any] | None) -> Row:
    """What was made of the question, and why each piece of evidence is there."""
    from srrag.answer.provenance import expansion, why

    return {"why": why(row, terms), "expansion": expansion(row)}


def degraded(row: Mapping[str, Any]) -> list[FailedStep]:
    """The steps that failed and were skipped, each with its fault."""
    steps = [*(row.get("trace") or ()), *(row.get("search_trace") or ())]
    found = [(each["step"], each.get("fault")) for each in steps]
    found += [("Reflect", each.get("fault")) for each in row.get("rounds") or ()]
    return [FailedStep(step=step, fault=fault) for step, fault in found if fault]


def _sentence(row: Row, numbers: Mapping[str, int]) -> AnswerSentence:
    places = [each for each in row.get("places") or () if each["evidence_id"] in numbers]
    return made(
        AnswerSentence, row,
        part=row.get("part") or "answer",
        citations=_numbered(row["evidence_ids"], numbers),
        places=[made(TextPlace, each, number=numbers[each["evidence_id"]]) for each in places],
    )  # fmt: skip


def _chosen(row: Mapping[str, Any]) -> tuple[int | None, str | None]:
    """The index and text of the chosen option, None and None for no choice or no options."""
    options, choice = row.get("options") or (), row.get("choice", -1)
    return (choice, options[choice]) if 0 <= choice < len(options) else (None, None)


def _support(row: Mapping[str, Any], numbers: Mapping[str, int]) -> AnswerSupport | None:
    if not (row.get("support") or {}).get("sentences"):
        return None
    unsupported = [
        made(UnsupportedSentence, each, citations=_numbered(each["evidence_ids"], numbers))
        for each in row["unsupported"]
    ]
    return made(AnswerSupport, row["support"], unsupported=unsupported)


def _notes(
    row: Mapping[str, Any],
    sentences: Sequence[AnswerSentence],
    evidence: Sequence[Evidence],
    left_out: Sequence[LeftOutPaper],
    lost: Sequence[FailedStep],
) -> tuple[AnswerNote, ...]:
    """All remarks, the gravest first."""
    cited = {number for each in sentences for number in each.citations}
    items, gone = list(map(vars, evidence)), list(map(asdict, left_out))
    said: list[tuple[NoteKind, str]] = [
        ("publication", standing_note(items, cited, gone)),
        ("evidence", row.get("answer_note") or ""),
        ("support", _support_line(row.get("unsupported") or ())),
        *(("degraded", f"{each.step} gave nothing. {each.fault}") for each in lost),
    ]  # fmt: skip
    return tuple(AnswerNote(kind=kind, text=text) for kind, text in said if text)


def _support_line(unsupported: Sequence[Row]) -> str:
    """A line for the reader on what was left out, "" for nothing; `support` has each and why.

    What was put right needs no line: the reader sees it as the papers state it.
    """
    count = sum(not each["repaired"] for each in unsupported)
    many = f"{count} sentence{'s' * (count > 1)}"
    return f"Left out: {many} that failed the check against the papers." if count else ""


def _numbered(ids: Sequence[str], numbers: Mapping[str, int]) -> tuple[int, ...]:
    """The numbers of evidence; what names none, as a source of a model's own, has no number."""
    return tuple(numbers[each] for each in ids if each in numbers)


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
    grade = f"grade {paper.grade}, {paper.study}" if paper.grade else "not graded"
    title = f": {paper.title}" if paper.title else ""
    return f"{numbers}{status} {grade}{title} ({source}{year})"


def written_by(model: str) -> str:
    """Who wrote an answer, for a reader who does not know how engines are named; "" for nobody."""
    name = model.partition(": ")[2]
    writer = f"the language model {name}" if name else model
    return f"Written by {writer}." if writer else ""


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
