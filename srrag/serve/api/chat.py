"""OpenAI's chat completions API: each pipeline is a model, and citations are in the text.

The answer ends with its sources as plain text, for clients that display only the text. The field
`srrag` holds sentences, citations and graded evidence.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from srrag.answer.record import AnswerRecord, paper_line, remarks, written_by
from srrag.llm.completion import Usage
from srrag.serve.api.conversation import SOURCES, THANKED
from srrag.serve.api.gateway import RequestContext
from srrag.serve.api.question import DEFAULT_MODEL, KEEP_ALIVE, PendingQuestion, pipeline_of
from srrag.serve.errors import ApiError
from srrag.serve.service import PipelineService
from srrag.serve.snapshot import PipelineResult

Json = dict[str, Any]


class ModelCard(BaseModel):
    """A pipeline, as OpenAI lists models."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    alias_of: str = Field("", description="the pipeline that this name stands for")


class ModelList(BaseModel):
    """The pipelines of this server."""

    object: Literal["list"]
    data: list[ModelCard]


class ChatReply(BaseModel):
    """What is said, with its sources as plain text."""

    role: Literal["assistant"]
    content: str


class ChatChoice(BaseModel):
    """The only choice."""

    index: int
    message: ChatReply
    finish_reason: Literal["stop"]
    logprobs: None


class ChatUsage(BaseModel):
    """Tokens of the engine; `rules` use none."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(BaseModel):
    """OpenAI's chat completion, and what it has no place for."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage
    srrag: Json = Field(description="an Answer")


def model_list(host: PipelineService) -> Json:
    """List the pipelines as models, and the default one also as `srrag` if that name is free."""
    common = {"object": "model", "created": int(host.edition.opened_at), "owned_by": "srrag"}
    models = [{"id": name, **common} for name in host.settings.pipelines]
    if DEFAULT_MODEL not in host.settings.pipelines:
        alias = {"id": DEFAULT_MODEL, **common, "alias_of": host.settings.default}
        models.insert(0, alias)
    return {"object": "list", "data": models}


def model_card(host: PipelineService, name: str) -> Json:
    """Describe one pipeline as a model; raises ApiError if no pipeline has this name."""
    pipeline_of(host, name, "model")
    found: Json = next(each for each in model_list(host)["data"] if each["id"] == name)
    return found


def chat_thanks(passing: RequestContext, pipeline: str) -> Json:
    """The reply to thanks: nothing is searched, and nothing is cited."""
    return _completion(passing, pipeline, THANKED, Usage(), {})


async def chat_thanks_stream(passing: RequestContext, pipeline: str) -> AsyncIterator[str]:
    """Yield the same as chunks."""
    head = _head(passing, pipeline, "chat.completion.chunk")
    for delta, finish in (({"role": "assistant", "content": THANKED}, None), ({}, "stop")):
        yield _data({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    yield "data: [DONE]\n\n"


async def chat_reply(asked: PendingQuestion, found: PipelineResult, ignored: Sequence[str]) -> Json:
    """Turn the result of a question into a chat completion."""
    reply = await asked.reply(found, explained=False)
    said = asked.understood(found.row["text"]) + reply.answer + sources(reply)
    more = extension(reply, ignored)
    return _completion(asked.passing, asked.pipeline, said, found.usage, more)


async def chat_stream(
    asked: PendingQuestion, usage: bool, ignored: Sequence[str]
) -> AsyncIterator[str]:
    """Yield the chunks of a streamed chat completion: the draft's tokens, then the final answer."""
    head = _head(asked.passing, asked.pipeline, "chat.completion.chunk")

    def chunk(delta: Json, finish: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _data({**head, "choices": [choice], **more})

    yield chunk({"role": "assistant", "content": asked.understood()})
    try:
        async for name, data in asked.events():
            if name == "read_as":
                yield chunk({"content": asked.understood(data)})
            elif name == "token":
                yield chunk({"content": data})
            elif name == "pause":
                yield KEEP_ALIVE
            elif name == "found":
                reply = await asked.reply(data, explained=False)
                yield chunk({"content": sources(reply)})
                yield chunk({}, "stop", srrag=extension(reply, ignored))
                if usage:
                    yield _data({**head, "choices": [], "usage": _usage(data.usage)})
    except ApiError as fault:
        asked.passing.notes["code"] = fault.code
        yield _data(fault.body(asked.passing.id))
    yield "data: [DONE]\n\n"


def sources(reply: AnswerRecord) -> str:
    """What follows the words of an answer as plain text: remarks, the papers cited."""
    lines = [paper_line(paper) for paper in reply.papers if paper.cited]
    said = "".join(f"\n\n{each}" for each in remarks(reply))
    return (
        said
        + (SOURCES + "\n".join(lines) if lines else "")
        + f"\n\n{written_by(reply.model)} Not medical advice."
    )


def extension(reply: AnswerRecord, ignored: Sequence[str]) -> Json:
    """The whole answer, as the other faces give it, and the options not followed."""
    return {**reply.json, "ignored": list(ignored)} if ignored else reply.json


def _completion(
    passing: RequestContext, pipeline: str, content: str, usage: Usage, srrag: Json
) -> Json:
    message = {"role": "assistant", "content": content}
    return {
        **_head(passing, pipeline, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": _usage(usage),
        "srrag": srrag,
    }


def _head(passing: RequestContext, pipeline: str, kind: str) -> Json:
    return {
        "id": f"chatcmpl-{passing.id}",
        "object": kind,
        "created": int(time.time()),
        "model": pipeline,
    }


def _usage(usage: Usage) -> Json:
    tokens = usage.tokens_in, usage.tokens_out
    return {
        "prompt_tokens": tokens[0],
        "completion_tokens": tokens[1],
        "total_tokens": sum(tokens),
    }


def _data(value: Json) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"
