"""POST /v1/rerank: ranks the caller's texts for a query, by relevance and optionally by grade."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from fastapi import FastAPI
from fastapi import Request as HttpRequest
from pydantic import BaseModel, ConfigDict, Field

from srrag.retrieve.questions import MAX_QUESTION_CHARS, question_fault
from srrag.serve.api.bodies import Grade, Request
from srrag.serve.api.openapi import shown
from srrag.serve.api.question import passing_of, pipeline_of
from srrag.serve.errors import ApiError
from srrag.serve.service import PipelineService

MAX_DOCUMENT_CHARS = 20_000
_SLICE_CHARS = 1_000
LOWEST = "E"
"""The grade that counts for a text without one."""


class RerankRequest(Request):
    """Texts to rank for a query."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "query": "ankle sprain cast",
                    "documents": ["Ten days in a cast at most.", "Stretch the calf daily."],
                }
            ]
        },
    )

    query: str = Field(max_length=MAX_QUESTION_CHARS)
    documents: list[Annotated[str, Field(max_length=MAX_DOCUMENT_CHARS)]] = Field(min_length=1)
    grades: list[Grade | None] | None = Field(
        None, description="of each document; needs a pipeline whose ranking weighs grades (BETR)"
    )
    pipeline: str | None = Field(None, max_length=100, description="whose weights of grades count")
    top_n: int | None = Field(None, ge=1)


class Ranked(BaseModel):
    """A document of the request, by its place there."""

    index: int
    score: float = Field(description="log odds of being relevant; with grades a·s + u_grade")
    relevance: float = Field(description="s, the log odds without grades")


class Reranked(BaseModel):
    """Documents of the request, the best first."""

    id: str
    results: list[Ranked]
    model: str


def add_reranking(app: FastAPI, host: PipelineService) -> None:
    """Add the route to an app."""

    @app.post("/v1/rerank", responses=shown("rerank"))
    async def rerank(body: RerankRequest, request: HttpRequest) -> Reranked:
        """Rank texts for a query by what their vectors say, and by their grades if given."""
        terms = _checked(host, body)
        passing, texts = passing_of(request), host.edition.texts

        call = partial(host.call, deadline=passing.deadline, caller=passing.counted)

        host.rate.charge(passing.counted, sum(map(len, body.documents)) / MAX_QUESTION_CHARS)
        query = await call(partial(texts.encoded, body.query))
        parts = slices(body.documents)
        relevance = np.concatenate([await call(partial(texts.scores, query, p)) for p in parts])
        scores = relevance if terms is None else graded(relevance, body.grades or (), terms)
        # A stable sort keeps texts of equal score in the order of the request.
        order = np.argsort(-scores.round(6), kind="stable")[: body.top_n]
        return Reranked(
            id=passing.id,
            results=[
                Ranked(index=int(n), score=_plain(scores[n]), relevance=_plain(relevance[n]))
                for n in order
            ],
            model=texts.model,
        )


def slices(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts in parts that take no longer than a question; between them others have a turn."""
    begun, held = 0, 0
    for n, text in enumerate(texts):
        if held and held + len(text) > _SLICE_CHARS:
            yield texts[begun:n]
            begun, held = n, 0
        held += len(text)
    yield texts[begun:]


def graded(
    scores: npt.NDArray[np.float64], grades: Sequence[str | None], terms: Mapping[str, Any]
) -> npt.NDArray[np.float64]:
    """The calibrated scores a·s + u_grade (Eq. 9 of sr-rag) of scores s, shape (texts,).

    A text without a grade counts as grade E.
    """
    biases = np.array([terms["u"][grade or LOWEST] for grade in grades])
    return np.asarray(terms["a"] * scores + biases, np.float64)


def _checked(host: PipelineService, body: RerankRequest) -> Mapping[str, Any] | None:
    """The pipeline's weights of grades, or None for a request without grades; raises ApiError."""
    if wrong := question_fault(body.query):
        raise ApiError(422, wrong[0], wrong[1], "query")
    most = host.settings.limits.max_documents
    if len(body.documents) > most:
        raise ApiError(400, "invalid", f"at most {most} documents", "documents")
    name = pipeline_of(host, body.pipeline)
    if body.grades is None:
        return None
    if len(body.grades) != len(body.documents):
        raise ApiError(400, "invalid", "one grade, or null, for each document", "grades")
    if (terms := host.edition.terms[name]) is None:
        message = f"pipeline {name} does not weigh grades; one with BETR does"
        raise ApiError(422, "no_calibration", message, "grades")
    return terms


def _plain(value: Any) -> float:
    return round(float(value), 6)
