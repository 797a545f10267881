"""The bodies of HTTP responses: rows of ANSWERS and windows as JSON, with citations resolved."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from srrag.answer.answer_json import answer_json, steps_json, trace_json
from srrag.answer.clinical.summary import ClinicalReading, clinical_reading
from srrag.expand.anchor_rules import rule_anchors
from srrag.serve.snapshot import PipelineResult
from srrag.units import Units

Row = dict[str, Any]


class SentenceJson(BaseModel):
    """A sentence of the answer and the numbers of the evidence that it rests on."""

    text: str
    citations: list[int]


class MismatchJson(BaseModel):
    """Where evidence is about other people (P) or another intervention (I) than was asked."""

    part: str
    asked: str
    found: str


class QuoteJson(BaseModel):
    """A stretch of the evidence's text, verbatim, and the parts of the question that it states."""

    char_start: int
    char_end: int
    text: str
    parts: list[str] = Field(description="P, I, C, O, T")


class FigureJson(BaseModel):
    """A figure of a textbook; the image is the name of its file, "" if the text gives none."""

    name: str
    caption: str
    image: str


class Evidence(BaseModel):
    """A window of a document or what was made of one, by the number that citations use."""

    number: int
    kind: str = Field(description="window, document, bullet, summary or finding")
    unit_id: str
    doc_id: str
    title: str
    section: str
    char_start: int = Field(description="where the text begins in its document, -1 if reworded")
    char_end: int
    text: str
    year: int
    grade: str
    study: str = Field(description="the kind of study that the grade stands for")
    grade_source: str = Field(description="what the grade was read from")
    source: str
    source_id: str
    pmid: str
    score: float
    standing: str = Field(
        "", description='in the literature: ok, retracted, concern, …; "" unknown'
    )
    standing_link: str = Field("", description="the paper that says so, as pmid:… or doi:…")
    quotes: list[QuoteJson]
    mismatches: list[MismatchJson]
    figures: list[FigureJson] = Field([], description="figures that the text names, in a textbook")


class StepJson(BaseModel):
    """A step of the pipeline; its time is that of the whole batch."""

    step: str
    ms: float
    items: int | None = None
    fault: str | None = Field(None, description="why the step gave nothing, where it failed")


class AnswerJson(BaseModel):
    """An answer with all that it rests on."""

    id: str
    question: str
    rewritten_from: str | None = Field(
        None, description="the follow-up as it was asked, where `question` was made of it"
    )
    answer: str
    state: str = Field(description="answered, partly or not")
    choice: int | None = Field(None, description="index of the option chosen, if there are options")
    option: str | None = None
    missing: str = Field("", description="what the evidence does not hold")
    note: str
    notice: str
    standing_note: str = Field("", description="cited or left-out papers that are not in order")
    left_out: list[Row] = Field(
        default_factory=list, description="papers found but not cited: retracted, deleted, …"
    )
    support: Row | None = Field(
        None, description="sentences as written, and those that a check kept or put right"
    )
    support_note: str = Field("", description="what a check put right or left out, for the reader")
    degraded: list[Row] = Field(
        default_factory=list, description="steps that this answer went on without, and why"
    )
    model: str
    sentences: list[SentenceJson]
    evidence: list[Evidence]
    off: list[str] = Field(description="steps that do nothing without a model")
    trace: list[StepJson]
    why: list[Row] | None = Field(None, description="who found each piece of evidence, and where")
    expansion: Row | None = Field(
        None, description="what was made of the question before searching"
    )
    clinical: ClinicalReading | None = Field(
        None, description="what a clinician reads first, computed from the answer by rules"
    )
    usage: Row
    batch_rows: int
    pipeline: str
    version: str = Field(description="identity of the build that the answer rests on")


class Hit(BaseModel):
    """A window that was found."""

    rank: int
    score: float
    unit_id: str
    doc_id: str
    title: str
    section: str
    text: str
    year: int
    grade: str
    source_id: str
    pmid: str
    standing: str = Field("", description='in the literature: ok, retracted, …; "" unknown')


class Hits(BaseModel):
    """Windows, the best first."""

    id: str
    query: str
    hits: list[Hit]
    trace: list[StepJson]
    pipeline: str
    version: str


class WindowJson(BaseModel):
    """A window with its document."""

    unit_id: str
    doc_id: str
    section: str
    char_start: int
    char_end: int
    text: str
    grade: str
    title: str
    year: int
    grade_source: str
    source: str
    source_id: str
    pmid: str
    version: str


class Alive(BaseModel):
    """No batch is stuck."""

    status: Literal["ok"]


class Ready(BaseModel):
    """A build is open."""

    status: Literal["ready"]
    version: str
    stale: str | None = Field(None, description="where there is a newer one that cannot be opened")


class Reloaded(BaseModel):
    """The build that answers from now on."""

    version: str


def answer(
    found: PipelineResult,
    *,
    id: str,
    pipeline: str,
    off: list[str],
    explained: bool,
    clinical: bool = False,
    rewritten_from: str | None = None,
) -> AnswerJson:
    """Turn a pipeline's result into the JSON answer.

    `explained` adds the reasons, `clinical` what a clinician reads first.
    """
    told = answer_json(found.row)
    told = {
        **told,
        "notice": told.get("notice", ""),
        "evidence": with_sources(told["evidence"], found.units),
        "trace": told["trace"]["steps"],
    }
    traced = trace_json(found.row, found.terms) if explained or clinical else {}
    reading = None
    if clinical:
        anchors = found.row.get("anchors") or rule_anchors([told["question"]])[0]
        reading = clinical_reading(told, anchors, traced["why"])
    return AnswerJson(
        **told,
        id=id,
        rewritten_from=rewritten_from,
        off=off,
        clinical=reading,
        why=traced.pop("why", None) if explained else None,
        expansion={k: v for k, v in traced.items() if k != "steps"} if explained else None,
        usage=found.usage.as_dict(),
        batch_rows=found.batch_rows,
        pipeline=pipeline,
        version=found.version,
    )


def with_sources(evidence: list[Row], units: Units) -> list[Row]:
    """Add the `source` and `grade_source` of its document to each piece of evidence."""
    documents = units.take_documents([item["doc_id"] for item in evidence]).to_pylist()
    return [
        {**item, **{name: document[name] for name in ("grade_source", "source")}}
        for item, document in zip(evidence, documents, strict=True)
    ]


def with_known_sources(evidence: list[Row], units: Units) -> list[Row]:
    """As `with_sources`, with "" for documents that the current build no longer holds."""
    told = []
    for item in evidence:
        try:
            told += with_sources([item], units)
        except ValueError:
            told.append({**item, "grade_source": "", "source": ""})
    return told


def hits(found: PipelineResult, *, id: str, k: int, pipeline: str) -> Hits:
    """The k best windows of a pipeline's result as JSON."""
    row = found.row
    ranked = row["hits"][:k]
    windows = found.units.take_evidence([hit["unit_id"] for hit in ranked]).to_pylist()
    standings, _ = found.standings.find([item["doc_id"] for item in windows])
    for item, standing in zip(windows, standings, strict=True):
        item["standing"] = standing
    return Hits(
        id=id,
        query=row["text"],
        hits=[
            Hit(rank=hit["rank"], score=hit["score"], **{name: item[name] for name in _WINDOW})
            for hit, item in zip(ranked, windows, strict=True)
        ],
        trace=[StepJson(**item) for item in steps_json(row["trace"])],
        pipeline=pipeline,
        version=found.version,
    )


def window(unit_id: str, units: Units, version: str) -> WindowJson | None:
    """The window with exactly this id as JSON, or None."""
    try:
        item = units.take([unit_id]).to_pylist()[0]
    except ValueError:
        return None
    if item["unit_id"] != unit_id:  # the lookup compares only the first 64 bits
        return None
    document = units.take_documents([item["doc_id"]]).to_pylist()[0]
    joined = {**document, **item, "version": version}
    return WindowJson(**{name: joined[name] for name in WindowJson.model_fields})


_WINDOW = [name for name in Hit.model_fields if name not in ("rank", "score")]
