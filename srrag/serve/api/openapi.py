"""The responses in the OpenAPI description: real example answers, and one error of each kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from srrag.serve.errors import ApiError, ErrorJson, busy, late

EXAMPLES = Path(__file__).parents[1] / "examples"
"""Recorded responses for the packaged sample, with long lists cut; a test compares the shapes."""

EXAMPLE_ID = "6c1f2e0a9d5b4c7e8f3a1b2c3d4e5f60"
EVENT_STREAM = "text/event-stream"

Responses = dict[int | str, dict[str, Any]]


FAULTS = {
    "not what the API takes; `error.field` names the part at fault": ApiError(
        400, "invalid", "Field required", "question"
    ),
    "no valid API key": ApiError(401, "unauthorized", "a valid API key is needed"),
    "without API keys, a request that does not come to a loopback name": ApiError(
        403, "host", "without API keys only this machine is served"
    ),
    "no such pipeline, window, entity, run or path": ApiError(
        404, "no_pipeline", "there is hybrid_maxsim, bm25; see /v1/models", "pipeline"
    ),
    "the body is too large": ApiError(
        413, "body_too_large", "the body holds more than 262144 bytes", "body"
    ),
    "the body is no JSON by its header": ApiError(
        415, "content_type", "the body has to be application/json"
    ),
    "cannot be asked, such as a question without a word": ApiError(
        422, "empty_question", "the question holds no word", "question"
    ),
    "too many requests of this key": ApiError(
        429, "rate", "too many requests of this key", retry_s=12.0
    ),
    "needs what is not installed beside this server": ApiError(
        501, "extra", "pooling needs: pip install 'srrag[synthesis]'"
    ),
    "busy, starting, stopping, or the engine is gone": busy(2.0),
    "the deadline passed": late(),
}
"""The errors that every path may return, by their meaning."""


KEY = {"key": {"type": "http", "scheme": "bearer", "description": "a key of `api_keys`"}}
"""The OpenAPI security scheme of a server with API keys."""

NEEDS_KEY: dict[str, Any] = {"security": [{"key": []}]}
NEEDS_NONE: dict[str, Any] = {"security": []}


class DescribedApi(FastAPI):
    """A FastAPI app that loads its responses' examples from files by name.

    Examples given to FastAPI directly would lose their null values.
    """

    keyed: bool = False
    """Whether paths need a key by default."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI description as JSON, with the examples filled in."""
        if self.openapi_schema is None:
            made = super().openapi()
            faults = {str(fault.status): fault.body(EXAMPLE_ID) for fault in FAULTS.values()}
            for content in contents(made):
                if name := content.get("example"):
                    content["example"] = faults.get(name) or _example(name)
            _show_requests(made)
            made["components"]["securitySchemes"] = KEY
            made.update(NEEDS_KEY if self.keyed else NEEDS_NONE)
        return super().openapi()


def contents(description: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the entry of each media type of each response in a description."""
    for operation in _operations(description):
        for response in operation["responses"].values():
            yield from response["content"].values()


def _operations(description: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for operations in description["paths"].values():
        yield from operations.values()


def _show_requests(description: dict[str, Any]) -> None:
    """Copy each request model's example to the operations that take it, where tools look."""
    for operation in _operations(description):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            model = content["schema"]["$ref"].rpartition("/")[2]
            (content["example"],) = description["components"]["schemas"][model]["examples"]


def _example(file: str) -> Any:
    text = (EXAMPLES / file).read_text("utf-8")
    return json.loads(text) if file.endswith(".json") else text


def shown(name: str, model: type[BaseModel] | None = None, *, stream: str = "") -> Responses:
    """The `responses` argument of a route whose examples are `name`.json and `stream`.txt.

    `model` documents a response that FastAPI does not validate as it is sent.
    """
    content: dict[str, Any] = {}
    if name:
        content["application/json"] = {"example": f"{name}.json"}
    if stream:
        content[EVENT_STREAM] = {"schema": {"type": "string"}, "example": f"{stream}.txt"}
    told: dict[str, Any] = {"description": "the answer", "content": content}
    return {200: told if model is None else {**told, "model": model}}


def fault_responses() -> Responses:
    """The errors as the `responses` argument of an app, by HTTP status."""
    found: Responses = {}
    for text, fault in FAULTS.items():
        content = {"application/json": {"example": str(fault.status)}}
        told = {"description": text, "model": ErrorJson, "content": content}
        if fault.retry_s:
            seconds = {"description": "seconds to wait", "schema": {"type": "integer"}}
            told["headers"] = {"Retry-After": seconds}
        found[fault.status] = told
    return found
