"""OpenAI's responses API: the same answers as in a chat, without anything stored."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from srrag.answer.record import AnswerRecord
from srrag.expand.follow_up import standalone_question
from srrag.llm.completion import Usage
from srrag.serve.api.chat import THANKED, extension, sources
from srrag.serve.api.gateway import RequestContext
from srrag.serve.api.openapi import EVENT_STREAM, shown
from srrag.serve.api.question import PendingQuestion, ask, passing_of, pipeline_of
from srrag.serve.api.requests import ResponsesRequest
from srrag.serve.api.sse import KEEP_ALIVE, event
from srrag.serve.errors import ApiError
from srrag.serve.service import PipelineService

Json = dict[str, Any]


class ResponseObject(BaseModel):
    """OpenAI's response, and what it has no place for."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["completed", "in_progress", "failed"]
    model: str
    output: list[Json]
    usage: Json | None
    error: Json | None
    incomplete_details: None
    instructions: None
    metadata: dict[str, str]
    parallel_tool_calls: bool
    temperature: None
    tool_choice: Literal["none"]
    tools: list[Json]
    top_p: None
    srrag: Json = Field(description="an Answer")


def add_responses(app: FastAPI, host: PipelineService) -> None:
    """Add the route."""

    @app.post(
        "/v1/responses",
        response_model=None,
        responses=shown("responses", ResponseObject, stream="responses_stream"),
    )
    async def create(body: ResponsesRequest, request: Request) -> Json | StreamingResponse:
        """OpenAI's responses; citations stand in the text and in `srrag`."""
        name = pipeline_of(host, body.model, field="model")
        passing = passing_of(request)
        said = standalone_question(body.questions())
        if said.kind == "thanks":
            thanked = _whole(passing, name, THANKED, Usage(), {})
            events = _told(passing, name, [THANKED], thanked)
            return _streamed(events) if body.stream else thanked
        asked = ask(host, request, name, said, aloud=bool(body.stream), field="input")
        if body.stream:
            return _streamed(_events(asked, body.ignored))
        found = await asked.answered()
        return _done(asked, found, await asked.reply(found, explained=False), body.ignored)


def _streamed(events: AsyncIterator[str]) -> StreamingResponse:
    headers = {"x-accel-buffering": "no"}
    return StreamingResponse(events, media_type=EVENT_STREAM, headers=headers)


def _done(asked: PendingQuestion, found: Any, reply: AnswerRecord, ignored: Sequence[str]) -> Json:
    text = asked.understood + reply.answer + sources(reply)
    return _whole(asked.passing, asked.pipeline, text, found.usage, extension(reply, ignored))


def _whole(passing: RequestContext, pipeline: str, text: str, usage: Usage, told: Json) -> Json:
    """A response that is done."""
    return {
        **_head(passing, pipeline, "completed"),
        "output": [_message(passing, text)],
        "usage": {
            "input_tokens": usage.tokens_in,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens_in},
            "output_tokens": usage.tokens_out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.tokens_in + usage.tokens_out,
        },
        "srrag": told,
    }


def _head(passing: RequestContext, pipeline: str, status: str) -> Json:
    return {
        "id": f"resp_{passing.id}", "object": "response", "created_at": int(time.time()),
        "status": status, "model": pipeline, "output": [], "usage": None, "error": None,
        "incomplete_details": None, "instructions": None, "metadata": {}, "temperature": None,
        "parallel_tool_calls": False, "tool_choice": "none", "tools": [], "top_p": None,
        "srrag": {},
    }  # fmt: skip


def _message(passing: RequestContext, text: str, status: str = "completed") -> Json:
    return {
        "type": "message",
        "id": f"msg_{passing.id}",
        "role": "assistant",
        "status": status,
        "content": [_part(text)] if status == "completed" else [],
    }


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


class _Numbered:
    """Events of a response, numbered from 0 as the client expects."""

    def __init__(self, passing: RequestContext) -> None:
        self._next = 0
        self._item = {"item_id": f"msg_{passing.id}", "output_index": 0, "content_index": 0}

    def __call__(self, name: str, **more: Any) -> str:
        """An event with these fields."""
        number, self._next = self._next, self._next + 1
        return event(name, {"type": name, "sequence_number": number, **more})

    def of_text(self, name: str, **more: Any) -> str:
        """An event of the text."""
        return self(f"response.{name}", **self._item, **more)


def _opened(say: _Numbered, passing: RequestContext, pipeline: str) -> list[str]:
    """What comes before the first word."""
    begun = _head(passing, pipeline, "in_progress")
    item = _message(passing, "", "in_progress")
    return [
        say("response.created", response=begun),
        say("response.in_progress", response=begun),
        say("response.output_item.added", output_index=0, item=item),
        say.of_text("content_part.added", part=_part("")),
    ]


def _closed(say: _Numbered, done: Json) -> list[str]:
    """What comes after the last word: the whole counts, as what was streamed is a draft."""
    (item,) = done["output"]
    text = item["content"][0]["text"]
    return [
        say.of_text("output_text.done", text=text, logprobs=[]),
        say.of_text("content_part.done", part=_part(text)),
        say("response.output_item.done", output_index=0, item=item),
        say("response.completed", response=done),
    ]


async def _told(
    passing: RequestContext, pipeline: str, words: Sequence[str], done: Json
) -> AsyncIterator[str]:
    """Yield a text that is known already."""
    say = _Numbered(passing)
    for each in _opened(say, passing, pipeline):
        yield each
    for text in words:
        yield say.of_text("output_text.delta", delta=text, logprobs=[])
    for each in _closed(say, done):
        yield each


async def _events(asked: PendingQuestion, ignored: Sequence[str]) -> AsyncIterator[str]:
    """Yield the events of an answer while it is made."""
    say = _Numbered(asked.passing)

    def delta(text: str) -> str:
        return say.of_text("output_text.delta", delta=text, logprobs=[])

    for each in _opened(say, asked.passing, asked.pipeline):
        yield each
    if asked.understood:
        yield delta(asked.understood)
    try:
        async for name, data in asked.events():
            if name == "token":
                yield delta(data)
            elif name == "pause":
                yield KEEP_ALIVE
            elif name == "found":
                reply = await asked.reply(data, explained=False)
                if notes := sources(reply):
                    yield delta(notes)
                for each in _closed(say, _done(asked, data, reply, ignored)):
                    yield each
    except ApiError as fault:
        asked.passing.notes["code"] = fault.code
        told = fault.body(asked.passing.id)["error"]
        failed = _head(asked.passing, asked.pipeline, "failed")
        error = {"code": "server_error", "message": told["message"]}
        yield say("response.failed", response={**failed, "error": error})
