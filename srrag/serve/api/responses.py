"""The bodies of HTTP responses that are no answer, and what makes an AnswerRecord of a result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, Field

from srrag.answer.clinical import clinical_reading
from srrag.answer.record import AnswerRecord, StepTime, step_times
from srrag.core.units import Units
from srrag.retrieve.passages import FoundPassage, found_passages
from srrag.serve.snapshot import PipelineResult

Row = dict[str, Any]


class Hits(BaseModel):
    """Windows, the best first."""

    id: str
    query: str
    hits: list[FoundPassage]
    trace: list[StepTime]
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
    found: PipelineResult, *, explained: bool, clinical: bool = False, **known: Any
) -> AnswerRecord:
    """The answer of a pipeline's result; `known` are fields that its row does not hold.

    `explained` adds the reasons, `clinical` what a clinician reads first.
    """
    made = replace(
        AnswerRecord.of(
            found.row, units=found.units, explained=explained or clinical, terms=found.terms
        ),
        usage=found.usage.as_dict(), batch_rows=found.batch_rows, version=found.version, **known,
    )  # fmt: skip
    if clinical:
        made = replace(made, clinical=clinical_reading(made))
    return made if explained else replace(made, why=None, expansion=None)


def hits(found: PipelineResult, *, id: str, k: int, pipeline: str) -> Hits:
    """The k best windows of a pipeline's result as JSON."""
    row = found.row
    ranked = row["hits"][:k]
    ids, scores = [hit["unit_id"] for hit in ranked], [hit["score"] for hit in ranked]
    return Hits(
        id=id,
        query=row["text"],
        hits=list(found_passages(ids, scores, found.units, found.standings)),
        trace=list(step_times(row["trace"])),
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
