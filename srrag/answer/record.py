"""The answer to a question, made once from the row that a pipeline wrote; every face renders it.

A field of an answer stands here, and in the renderers that show it: a face names the fields that it
leaves out, and why, beside its renderer (`tests/contract/test_faces.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, TypeAdapter

from srrag.answer.clinical.summary import ClinicalReading
from srrag.answer.provenance import StepTime, expansion, step_times, why
from srrag.answer.support.settle_checks import support_line
from srrag.core.grades import STUDIES
from srrag.core.schema import EVIDENCE, FINDING_KINDS, empty_value
from srrag.core.standing import mark, standing_note
from srrag.core.units import Units

Row = dict[str, Any]
State = Literal["answered", "partly", "not"]
Verdict = Literal["yes", "no", "no difference", "mixed", "unclear", ""]
Part = Literal["answer", "evidence", "limits"]
FindingKind = Literal["result", "recommendation", "planned", "background", "method"]
NoteKind = Literal["publication", "difference", "evidence", "support", "degraded"]

_DESCRIBED = ConfigDict(use_attribute_docstrings=True)
_ITEM = {field.name: empty_value(field.type) for field in EVIDENCE.value_type} | {
    "kind": "window", "char_start": -1, "char_end": -1,
}  # fmt: skip
"""What evidence of an older version lacks."""


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
class EvidenceQuote:
    """A stretch of the evidence's text, verbatim, and the parts of the question that it states."""

    char_start: int
    char_end: int
    text: str
    reason: str = ""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class EvidenceMismatch:
    """Where evidence is about other people (P) or another intervention (I) than was asked."""

    part: str
    asked: str
    found: str


@dataclass(frozen=True, kw_only=True)
class TextbookFigure:
    """A figure of a textbook; the image is the name of its file, "" if the text gives none."""

    name: str
    caption: str
    image: str


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A window of a document, or what was made of one, by the number that citations use."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    number: int
    kind: str = "window"
    """window, document, bullet, summary or finding"""
    evidence_id: str = ""
    unit_id: str = ""
    doc_id: str = ""
    title: str = ""
    section: str = ""
    char_start: int = -1
    """where the text begins in its document, -1 if reworded"""
    char_end: int = -1
    text: str = ""
    year: int = 0
    grade: str = ""
    """A (best) to E, "" for none"""
    study: str = ""
    """the kind of study that the grade stands for"""
    grade_source: str = ""
    """what the grade was read from"""
    source: str = ""
    source_id: str = ""
    pmid: str = ""
    score: float = 0.0
    standing: str = ""
    """in the literature: ok, retracted, concern, …; "" if the build did not look"""
    standing_link: str = ""
    """the paper that says so, as pmid:… or doi:…"""
    quotes: tuple[EvidenceQuote, ...] = ()
    mismatches: tuple[EvidenceMismatch, ...] = ()
    figures: tuple[TextbookFigure, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper with the numbers of the evidence that is from it."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    numbers: tuple[int, ...]
    cited: bool
    title: str
    year: int
    source_id: str
    pmid: str
    grade: str
    study: str
    status: str
    """what a reader must know of its publication, as "retracted (PMID 1)"; "" for nothing"""


@dataclass(frozen=True, kw_only=True)
class LeftOutPaper:
    """A paper that was found but must not be cited: retracted, deleted, superseded."""

    doc_id: str
    source_id: str
    pmid: str
    title: str
    standing: str
    standing_link: str


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
class AnswerRecord:
    """An answer with all that it rests on; None and empty where a pipeline has nothing to say."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    question: str
    answer: str = ""
    """the whole text, with citation numbers in brackets"""
    state: State = "not"
    """whether the evidence answers the question"""
    verdict: Verdict = ""
    """the answer to a question of yes or no; "" for others, and where nobody read one"""
    choice: int | None = None
    """index of the option chosen, if the question has options"""
    option: str | None = None
    sentences: tuple[AnswerSentence, ...] = ()
    findings: tuple[AnswerFinding, ...] = ()
    missing: str = ""
    """what the evidence does not hold"""
    evidence: tuple[Evidence, ...] = ()
    papers: tuple[Paper, ...] = ()
    left_out: tuple[LeftOutPaper, ...] = ()
    notes: tuple[AnswerNote, ...] = ()
    support: AnswerSupport | None = None
    """None if no step checked it"""
    degraded: tuple[FailedStep, ...] = ()
    error: str = ""
    """why the question has no answer at all"""
    model: str = ""
    """who wrote it: a model, or rules"""
    usage: dict[str, Any] | None = field(default=None, compare=False)
    """calls and tokens of the batch of `batch_rows` questions"""
    batch_rows: int = field(default=1, compare=False)
    trace: tuple[StepTime, ...] = field(default=(), compare=False)
    why: tuple[dict[str, Any], ...] | None = None
    """who found each piece of evidence, and where (where a trace is asked for)"""
    expansion: dict[str, Any] | None = None
    """what was made of the question before searching (where a trace is asked for)"""
    clinical: ClinicalReading | None = None
    """what a clinician reads first, by rules (`options.clinical` of the HTTP API)"""
    off: tuple[str, ...] = ()
    """steps that do nothing without a model"""
    rewritten_from: str | None = None
    """the follow-up as it was asked, where `question` was made of it"""
    id: str = field(default="", compare=False)
    """of the request, or of the question"""
    pipeline: str = field(default="", compare=False)
    version: str = ""
    """identity of the build that the answer rests on"""

    @classmethod
    def of(
        cls,
        row: Mapping[str, Any],
        *,
        units: Units | None = None,
        explained: bool = False,
        terms: Mapping[str, Any] | None = None,
    ) -> Self:
        """Make the answer of an answered or rejected row; columns that it lacks say nothing.

        `units` tell the source of each document and of its grade. `explained` adds what was made of
        the question and why each piece of evidence is there, with the `terms` of BETR.
        """
        if reject := row.get("reject"):
            error = f"{reject['stage']}: {reject['detail']}"
            return cls(question=row["text"], error=error, id=row.get("query_id", ""))
        numbers = {item["evidence_id"]: n for n, item in enumerate(row["evidence"], start=1)}
        sentences = tuple(_sentence(each, numbers) for each in row["sentences"])
        evidence = _evidence(row, numbers, units)
        left_out = [_picked(LeftOutPaper, each) for each in row.get("left_out") or ()]
        lost = degraded(row)
        choice, option = _chosen(row)
        return cls(
            question=row["text"],
            answer=row["answer"],
            state=row["state"],
            verdict=row.get("verdict", ""),
            choice=choice,
            option=option,
            sentences=sentences,
            findings=tuple(_finding(each, numbers) for each in row.get("findings") or ()),
            missing=row.get("missing", ""),
            evidence=evidence,
            papers=papers_of(evidence, {n for each in sentences for n in each.citations}),
            left_out=tuple(left_out),
            notes=_notes(row, sentences, evidence, left_out, lost),
            support=_support(row, numbers),
            degraded=tuple(lost),
            model=row["model"],
            trace=step_times(row.get("trace") or ()),
            why=tuple(why(row, terms)) if explained else None,
            expansion=expansion(row) if explained else None,
            id=row.get("query_id", ""),
        )

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


def papers_of(evidence: Sequence[Evidence], cited: Iterable[int]) -> tuple[Paper, ...]:
    """The papers of some evidence, in the order of their first piece; an answer cites `cited`."""
    groups: dict[str, list[Evidence]] = {}
    for item in evidence:
        groups.setdefault(item.doc_id or item.source_id or item.evidence_id, []).append(item)
    wanted = {*cited}
    return tuple(
        Paper(
            numbers=tuple(item.number for item in items),
            cited=any(item.number in wanted for item in items),
            title=items[0].title,
            year=items[0].year,
            source_id=items[0].source_id,
            pmid=items[0].pmid,
            grade=items[0].grade,
            study=items[0].study,
            status=mark(vars(items[0])),
        )
        for items in groups.values()
    )


def degraded(row: Mapping[str, Any]) -> list[FailedStep]:
    """The steps that failed and were skipped, each with its fault."""
    steps = [*(row.get("trace") or ()), *(row.get("search_trace") or ())]
    found = [(each["step"], each.get("fault")) for each in steps]
    found += [("Reflect", each.get("fault")) for each in row.get("rounds") or ()]
    return [FailedStep(step=step, fault=fault) for step, fault in found if fault]


def _sentence(row: Mapping[str, Any], numbers: Mapping[str, int]) -> AnswerSentence:
    return AnswerSentence(
        text=row["text"],
        part=row.get("part") or "answer",
        citations=_numbered(row["evidence_ids"], numbers),
        places=tuple(
            TextPlace(number=numbers[each["evidence_id"]], start=each["start"], end=each["end"])
            for each in row.get("places") or ()
            if each["evidence_id"] in numbers
        ),
    )


def _finding(row: Mapping[str, Any], numbers: Mapping[str, int]) -> AnswerFinding:
    assert row["kind"] in FINDING_KINDS, row["kind"]
    return AnswerFinding(
        text=row["text"],
        kind=row["kind"],
        number=numbers.get(row["evidence_id"], 0),
        start=row["start"],
        end=row["end"],
    )


def _evidence(
    row: Mapping[str, Any], numbers: Mapping[str, int], units: Units | None
) -> tuple[Evidence, ...]:
    items = [{**_ITEM, **item} for item in row["evidence"]]
    sources = _sources([item["doc_id"] for item in items], units)
    return tuple(
        Evidence(
            number=numbers[item["evidence_id"]],
            study=STUDIES.get(item["grade"], ""),
            **item,
            **source,
            quotes=_about(EvidenceQuote, item, row.get("snippets")),
            mismatches=_about(EvidenceMismatch, item, row.get("mismatches")),
            figures=_about(TextbookFigure, item, row.get("figures")),
        )
        for item, source in zip(items, sources, strict=True)
    )


def _sources(doc_ids: Sequence[str], units: Units | None) -> list[Row]:
    """Source and source of the grade of each document; {} for one that the build does not hold."""
    if units is None:
        return [{} for _ in doc_ids]
    try:
        table = units.take_documents(doc_ids)
    except ValueError:
        if len(doc_ids) == 1:
            return [{}]
        return [each for doc_id in doc_ids for each in _sources([doc_id], units)]
    found: list[Row] = table.select(["source", "grade_source"]).to_pylist()
    return found


def _about(kind: type[Any], item: Row, column: Sequence[Row] | None) -> tuple[Any, ...]:
    """The items of another column that are about this piece of evidence."""
    own = (each for each in column or () if each["evidence_id"] == item["evidence_id"])
    return tuple(_picked(kind, each) for each in own)


def _picked(kind: type[Any], row: Row) -> Any:
    values = {name: row[name] for name in kind.__dataclass_fields__ if name in row}
    return kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


def _chosen(row: Mapping[str, Any]) -> tuple[int | None, str | None]:
    """The index and text of the chosen option, None and None for no choice or no options."""
    options, choice = row.get("options") or (), row.get("choice", -1)
    return (choice, options[choice]) if 0 <= choice < len(options) else (None, None)


def _support(row: Mapping[str, Any], numbers: Mapping[str, int]) -> AnswerSupport | None:
    if not (row.get("support") or {}).get("sentences"):
        return None
    return AnswerSupport(
        **row["support"],
        unsupported=tuple(
            UnsupportedSentence(
                text=each["text"],
                fault=each["fault"],
                citations=_numbered(each["evidence_ids"], numbers),
                reason=each.get("reason") or "",
                repaired=each.get("repaired") or "",
            )
            for each in row["unsupported"]
        ),
    )


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
        ("difference", row.get("notice") or ""),
        ("evidence", row.get("answer_note") or ""),
        ("support", support_line(row.get("unsupported") or ())),
        *(("degraded", f"{each.step} gave nothing. {each.fault}") for each in lost),
    ]  # fmt: skip
    return tuple(AnswerNote(kind=kind, text=text) for kind, text in said if text)


def _numbered(ids: Sequence[str], numbers: Mapping[str, int]) -> tuple[int, ...]:
    """The numbers of evidence; what names none, as a source of a model's own, has no number."""
    return tuple(numbers[each] for each in ids if each in numbers)
