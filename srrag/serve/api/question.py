"""Carries the question of an HTTP request to the pipeline service, and what comes of it back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import Request

from srrag.answer.record import AnswerRecord
from srrag.expand.follow_up import StandaloneQuestion
from srrag.retrieve.questions import question_fault
from srrag.serve.api import bodies
from srrag.serve.api.conversation import READ_AS, Turn, conversation
from srrag.serve.api.gateway import RequestContext
from srrag.serve.errors import ApiError
from srrag.serve.listeners import Event
from srrag.serve.service import PipelineService
from srrag.serve.snapshot import Asking, PipelineJob, PipelineResult
from srrag.serve.telemetry import StepSpans

DEFAULT_MODEL = "srrag"
"""The alias of the server's default pipeline, unless a pipeline has this name."""

KEEP_ALIVE = ": still at it\n\n"
PAUSE_S = 15.0
"""Seconds of silence after which a stream sends a keep-alive, before proxies close it."""


@dataclass
class PendingQuestion:
    """A queued question, with everything that its reply needs."""

    host: PipelineService
    passing: RequestContext
    pipeline: str
    ticket: Asking
    heard: asyncio.Queue[Event | None]
    rewritten_from: str | None = None
    """The follow-up that rules made the question of."""

    def asked_as(self, text: str = "") -> str | None:
        """The follow-up that the question was made of, None for a question of its own.

        `text` is the question that a model made of it, "" as long as it has not.
        """
        if (said := self.ticket.item.row.get("conversation")) is None:
            return self.rewritten_from
        return said["asked"] if text not in ("", said["asked"]) else None

    def understood(self, text: str = "") -> str:
        """The line that says what a follow-up was taken to ask; "" for a question of its own."""
        if self.asked_as(text) is None:
            return ""
        return f"{READ_AS}{text or self.ticket.item.row['text']}\n\n"

    async def answered(self) -> PipelineResult:
        """Wait for the result, and note its version and batch size for the log line."""
        found = await self.host.answered(self.ticket)
        self.passing.notes.update(version=found.version, batch_rows=found.batch_rows)
        self.passing.steps = StepSpans.of(found.row["trace"])
        return found

    async def reply(
        self, found: PipelineResult, explained: bool, clinical: bool = False
    ) -> AnswerRecord:
        """The answer of a result, written in its caller's turn."""
        make = partial(
            bodies.answer, found, explained=explained, clinical=clinical, id=self.passing.id,
            pipeline=self.pipeline, rewritten_from=self.asked_as(found.row["text"]),
            off=tuple(self.host.settings.pipelines[self.pipeline].left_out),
        )  # fmt: skip
        host, passing = self.host, self.passing
        return await host.call(make, passing.deadline, passing.counted, host.replies)

    async def events(self) -> AsyncIterator[Event]:
        """Yield the pipeline's events, and last ("found", PipelineResult).

        Yields ("pause", None) after PAUSE_S seconds of silence.
        """

        async def waited() -> PipelineResult:
            try:
                return await self.answered()
            finally:
                self.heard.put_nowait(None)

        waiting = asyncio.create_task(waited())
        try:
            while (event := await self._next()) is not None:
                yield event
            yield "found", await waiting
        finally:
            # A client that stopped reading has given up: drop its question if it has not begun.
            waiting.cancel()
            with suppress(asyncio.CancelledError, ApiError):
                await waiting

    async def _next(self) -> Event | None:
        try:
            async with asyncio.timeout(PAUSE_S):
                return await self.heard.get()
        except TimeoutError:
            return "pause", None


def ask(
    host: PipelineService,
    request: Request,
    pipeline: str,
    question: str | StandaloneQuestion,
    turns: Sequence[Turn] = (),
    *,
    what: str = "answer",
    aloud: bool = False,
    field: str = "question",
) -> PendingQuestion:
    """Queue a question; raises ApiError at once if it is invalid or the queue is full.

    A pipeline that asks a model is shown the `turns` before it: the model reads the message anew,
    and what rules made of it stands in where that fails.
    """
    asked_as = question if isinstance(question, StandaloneQuestion) else None
    question = asked_as.text if asked_as else str(question)
    passing = passing_of(request)
    passing.notes["pipeline"] = pipeline
    if host.settings.log_questions:
        passing.notes["question"] = question
    if fault := question_fault(question):
        named = "query" if what == "search" else field
        raise ApiError(422, fault[0], fault[1], named)
    loop = asyncio.get_running_loop()
    heard: asyncio.Queue[Event | None] = asyncio.Queue()

    def hear(event: Event) -> None:
        with suppress(RuntimeError):  # the loop has ended, so no client is left
            loop.call_soon_threadsafe(heard.put_nowait, event)

    row: dict[str, Any] = {"text": question}
    if turns and asked_as and host.settings.asks_model(pipeline):
        message = asked_as.asked if asked_as.rewritten else asked_as.text
        row["conversation"] = conversation(turns, message)
    asked = PipelineJob(row, hear if aloud else None)
    ticket = host.ask(f"{what}:{pipeline}", asked, passing.deadline, passing.counted)
    rewritten = asked_as.asked if asked_as and asked_as.rewritten else None
    return PendingQuestion(host, passing, pipeline, ticket, heard, rewritten)


async def answer_events(
    asked: PendingQuestion, explained: bool, clinical: bool = False
) -> AsyncIterator[str]:
    """Yield the events `stage`, `evidence`, `finding` and `token`, then `final` or `error`.

    Tokens belong to a draft that the pipeline may still change; only `final` counts.
    """
    try:
        async for name, data in asked.events():
            if name == "found":
                reply = await asked.reply(data, explained, clinical)
                yield event("final", reply.json)
            elif name == "evidence":
                numbered = [{"number": n, **item} for n, item in enumerate(data, start=1)]
                yield event(name, {"evidence": numbered})
            elif name == "pause":
                yield KEEP_ALIVE
            elif name == "read_as":
                pass  # `final` says it
            elif name == "token":
                yield event(name, {"text": data})
            else:
                yield event(name, data)
    except ApiError as fault:
        asked.passing.notes["code"] = fault.code
        yield event("error", fault.body(asked.passing.id))


def event(name: str, data: Any) -> str:
    """Format one event; JSON contains no raw line break, so the data is one line."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def pipeline_of(host: PipelineService, name: str | None, field: str = "pipeline") -> str:
    """Resolve the name of a pipeline; raises ApiError if no pipeline has this name."""
    settings = host.settings
    if name is None:
        return settings.default
    if name not in settings.pipelines:
        if field == "model" and name == DEFAULT_MODEL:
            return settings.default
        raise ApiError(
            404, "no_pipeline", f"there is {', '.join(settings.pipelines)}; see /v1/models", field
        )
    return name


def passing_of(request: Request) -> RequestContext:
    """The context that the gateway attached to a request."""
    passing: RequestContext = request.scope["passing"]
    return passing
