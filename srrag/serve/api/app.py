"""The HTTP API of a pipeline service, as an ASGI app without any dependency on Ray."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from srrag import __version__
from srrag.answer.record import AnswerRecord
from srrag.expand.follow_up import StandaloneQuestion, standalone_question
from srrag.llm.completion import one_line
from srrag.retrieve.questions import MAX_QUESTION_CHARS
from srrag.serve.api import bodies
from srrag.serve.api.bodies import AnswerRequest, ChatRequest, SearchRequest
from srrag.serve.api.browse import add_reading
from srrag.serve.api.chat import (
    ChatCompletion,
    ModelCard,
    ModelList,
    chat_reply,
    chat_stream,
    chat_thanks,
    chat_thanks_stream,
    model_card,
    model_list,
)
from srrag.serve.api.conversation import THANKED, Turn, turns_of
from srrag.serve.api.gateway import Gateway, add_pages
from srrag.serve.api.openapi import (
    EVENT_STREAM,
    NEEDS_KEY,
    NEEDS_NONE,
    DescribedApi,
    fault_responses,
    shown,
)
from srrag.serve.api.question import answer_events, ask, passing_of, pipeline_of
from srrag.serve.api.rerank import add_reranking
from srrag.serve.errors import ApiError
from srrag.serve.library_facts import LibraryFacts, library_facts
from srrag.serve.service import PipelineService
from srrag.storage.store import Store
from srrag.synthesis.gather import findings_read

_CODES = {400: "invalid", 404: "not_found", 405: "method"}


def create_app(host: PipelineService) -> Gateway:
    """Build the API of a service; the app's lifespan starts and stops the service."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with host.running():
            yield

    app = DescribedApi(
        title="SR-RAG",
        version=__version__,
        description="Clinical questions, answered from graded evidence. Not medical advice.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's page would load scripts from another site
        redoc_url=None,
        responses=fault_responses(),
    )
    app.keyed = bool(host.settings.keys)
    _add_answers(app, host)
    _add_retrieval(app, host)
    _add_chat(app, host)
    _add_operations(app, host)
    add_reranking(app, host)
    add_reading(app, host)
    add_pages(app)
    _add_faults(app)
    return Gateway(app, host)


def _add_answers(app: FastAPI, host: PipelineService) -> None:
    @app.post("/v1/answers", responses=shown("answer"))
    async def answers(body: AnswerRequest, request: Request) -> AnswerRecord:
        """Answer a question: sentences with citations, and the evidence with its grades."""
        name = pipeline_of(host, body.pipeline)
        asked = ask(host, request, name, *_standalone(body))
        found = await asked.answered()
        return await asked.reply(found, body.options.trace, body.options.clinical)

    @app.post(
        "/v1/answers/stream",
        response_class=StreamingResponse,
        responses=shown("", stream="answer_stream"),
    )
    async def answers_stream(body: AnswerRequest, request: Request) -> StreamingResponse:
        """The same while it is made: `stage`, `evidence`, `token`, then `final`."""
        name = pipeline_of(host, body.pipeline)
        asked = ask(host, request, name, *_standalone(body), aloud=True)
        events = answer_events(asked, body.options.trace, body.options.clinical)
        return _streamed(events)


def _standalone(body: AnswerRequest) -> tuple[StandaloneQuestion, list[Turn]]:
    """The question in the light of what was said before; raises ApiError for thanks."""
    turns = [
        Turn(each) if isinstance(each, str) else Turn(each.question, each.answer)
        for each in body.history
    ]
    if not turns:
        return StandaloneQuestion(body.question, body.question), []
    before = [turn.question for turn in turns]
    said = standalone_question([*before, body.question], MAX_QUESTION_CHARS)
    if said.kind == "thanks":
        raise ApiError(422, "thanks", THANKED, "question")
    return said, turns


def _streamed(events: AsyncIterator[str]) -> StreamingResponse:
    """Stream server-sent events, with a header that asks proxies not to buffer them."""
    headers = {"x-accel-buffering": "no"}
    return StreamingResponse(events, media_type=EVENT_STREAM, headers=headers)


def _add_retrieval(app: FastAPI, host: PipelineService) -> None:
    @app.post("/v1/search", responses=shown("search"))
    async def search(body: SearchRequest, request: Request) -> bodies.Hits:
        """The best windows for a question, without an answer."""
        name = pipeline_of(host, body.pipeline)
        asked = ask(host, request, name, body.query, what="search")
        found = await asked.answered()
        return bodies.hits(found, id=asked.passing.id, k=body.k, pipeline=name)

    facts: dict[str, LibraryFacts] = {}

    @app.get("/v1/library", responses=shown("library"))
    async def library(request: Request) -> LibraryFacts:
        """What the library holds, by grade, and questions that its own titles ask."""
        edition, passing = host.edition, passing_of(request)
        if edition.version not in facts:
            store, build = Store(host.settings.root), host.settings.build

            def make() -> LibraryFacts:
                return library_facts(edition.units, findings_read(store, build), edition.version)

            made = await host.call(make, passing.deadline, passing.counted)
            facts.clear()
            facts[edition.version] = made
        return facts[edition.version]

    @app.get("/v1/windows/{unit_id}", responses=shown("window"))
    async def window(unit_id: str) -> bodies.WindowJson:
        """A window with its document."""
        edition = host.edition
        found = bodies.window(unit_id, edition.units, edition.standings, edition.version)
        if found is None:
            raise ApiError(404, "not_found", "there is no such window", "unit_id")
        return found


def _add_chat(app: FastAPI, host: PipelineService) -> None:
    @app.get("/v1/models", responses=shown("models", ModelList))
    async def models() -> dict[str, Any]:
        """The pipelines, as OpenAI lists models."""
        return model_list(host)

    @app.get("/v1/models/{model}", responses=shown("model", ModelCard))
    async def model(model: str) -> dict[str, Any]:
        """One of them."""
        return model_card(host, model)

    @app.post(
        "/v1/chat/completions",
        response_model=None,
        responses=shown("chat", ChatCompletion, stream="chat_stream"),
    )
    async def chat(body: ChatRequest, request: Request) -> dict[str, Any] | StreamingResponse:
        """OpenAI's chat completions; citations stand in the text and in `srrag`."""
        name = pipeline_of(host, body.model, field="model")
        turns, last = turns_of((each.role, each.text()) for each in body.messages)
        before = [turn.question for turn in turns]
        said = standalone_question([*before, last], MAX_QUESTION_CHARS)
        if said.kind == "thanks":
            events = chat_thanks_stream(passing_of(request), name)
            return _streamed(events) if body.stream else chat_thanks(passing_of(request), name)
        asked = ask(host, request, name, said, turns, aloud=bool(body.stream), field="messages")
        if body.stream:
            events = chat_stream(asked, usage=body.counts_usage(), ignored=body.ignored)
            return _streamed(events)
        return await chat_reply(asked, await asked.answered(), ignored=body.ignored)


def _add_operations(app: FastAPI, host: PipelineService) -> None:
    @app.get("/healthz", responses=shown("healthz"), openapi_extra=NEEDS_NONE)
    async def healthz() -> bodies.Alive:
        """Alive: no batch is stuck."""
        try:
            host.check()
        except RuntimeError as error:
            raise ApiError(503, "stuck", one_line(error), retry_s=10.0) from None
        return bodies.Alive(status="ok")

    @app.get(
        "/readyz",
        response_model_exclude_none=True,
        responses=shown("readyz"),
        openapi_extra=NEEDS_NONE,
    )
    async def readyz() -> bodies.Ready:
        """Ready: a build is open."""
        stale = "see the log" if host.stale else None
        return bodies.Ready(status="ready", version=host.edition.version, stale=stale)

    @app.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics() -> Response:
        """Prometheus metrics of the replica that answers."""
        return Response(host.metrics.text(), media_type="text/plain; version=0.0.4")

    @app.post("/admin/reload", responses=shown("reload"), openapi_extra=NEEDS_KEY)
    async def reload() -> bodies.Reloaded:
        """Open the build as it stands now; every request is answered meanwhile."""
        if not host.settings.keys:
            raise ApiError(401, "unauthorized", "no admin without API keys: start the server again")
        try:
            return bodies.Reloaded(version=await host.reload())
        except (ValueError, OSError) as error:
            raise ApiError(503, "reload", one_line(error), retry_s=10.0) from error


def _add_faults(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def fault(request: Request, error: ApiError) -> JSONResponse:
        passing = passing_of(request)
        passing.notes["code"] = error.code
        if error.__cause__ is not None:  # the log gets the cause, the caller does not
            passing.notes["error"] = one_line(error.__cause__)
        return JSONResponse(error.body(passing.id), error.status, headers=error.headers())

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body") or "body"
        if first["type"] == "json_invalid":
            where = "body"
        return await fault(request, ApiError(400, "invalid", one_line(first["msg"]), where))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        if (body := passing_of(request).fault) is not None:
            return await fault(request, body)
        code = _CODES.get(error.status_code, "http")
        named = "body" if error.status_code == 400 else ""
        told = ApiError(error.status_code, code, one_line(error.detail), named)
        return await fault(request, told)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        passing_of(request).notes["error"] = f"{type(error).__name__}: {one_line(error)}"
        message = "the server failed; its log holds the reason under this request id"
        return await fault(request, ApiError(500, "internal", message))
