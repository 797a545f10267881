"""The chat completions protocol as pure functions that render requests and read responses."""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pydantic

from srrag.core.errors import EngineError
from srrag.engine.call import Call, Reply, allowed, schema_json
from srrag.llm.completion import Answer, Enums, Fault, one_line
from srrag.llm.loops import ended

if TYPE_CHECKING:
    from srrag.engine.openai.engine import HttpEngine

MAX_BODY_BYTES = 8 * 1024**2
MAX_WAIT_S = 120.0
"""Upper limit of a Retry-After header, in seconds."""
BACKOFF_S, MAX_BACKOFF_S = 0.5, 30.0
COMPACT = "\n\nWrite the JSON on one line, without indentation or blanks between its parts."
"""Asked of every endpoint: indentation is up to half of an answer's tokens."""
FILTERED = "I cannot answer: the content filter of the endpoint withheld the answer."
LENGTHS = frozenset({"minLength", "maxLength"})
NUMBERS = frozenset(
    {"minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
)
DROPPED: Mapping[str, frozenset[str]] = {
    "all": frozenset(),
    "items": LENGTHS,
    "none": LENGTHS | NUMBERS | {"pattern"},
}
"""Schema keywords that are left out, by the value of `HttpEngine.bounds`."""
DETAIL_CHARS = 300
RETRIED = frozenset({408, 409, 425, 429})
HOPELESS = {
    401: "the key is refused",
    402: "payment is required",
    403: "access is refused",
    404: "no such model or URL",
}
# Messages of vLLM, OpenAI, llama.cpp, TGI and others that prompt and answer exceed the context.
_TOO_LONG = re.compile(
    r"context[ _](length|window|size|limit)|maximum model length|max_tokens must be at least 1"
    r"|max_new_tokens.{0,20} must be <=|prompt is too long|reduce the length",
    re.IGNORECASE,
)


class AttemptError(EngineError):
    """A failed attempt.

    `passing`: the failure is transient, and a retry after `wait_s` seconds may succeed. `refused`:
    the endpoint refused the connection. `hopeless`: every other call would fail likewise.
    """

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        passing: bool = True,
        wait_s: float = 0.0,
        refused: bool = False,
        hopeless: bool = False,
    ) -> None:
        """Keep kind and detail as a fault; the detail becomes one short line."""
        super().__init__(detail)
        self.fault = Fault(kind, one_line(detail, DETAIL_CHARS))
        self.passing = passing
        self.wait_s = wait_s
        self.refused = refused
        self.hopeless = hopeless


@dataclass(frozen=True)
class Dialect:
    """How an endpoint wants requests; the fields are those of HttpEngine."""

    model: str
    structured: str
    strict: bool
    bounds: str

    def request(self, call: Call, *, stream: bool = False) -> bytes:
        """Render the JSON body of a call."""
        messages = call.messages()
        messages[0]["content"] += appended(call.prompt.schema, self.structured)
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "max_tokens": call.prompt.max_tokens,
            "temperature": call.prompt.temperature,
            "seed": call.seed,
        }
        schema = call.prompt.schema
        if self.structured == "json_schema":
            body["response_format"] = _response_format(
                schema, self.strict, self.bounds, call.prompt.enums
            )
        elif self.structured == "json_object":
            body["response_format"] = {"type": "json_object"}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return json.dumps(body, separators=(",", ":")).encode("ascii")


def dialect(engine: HttpEngine) -> Dialect:
    """How an engine wants requests."""
    return Dialect(engine.model, engine.structured, engine.strict, engine.bounds)


def appended(schema: type[Answer], structured: str) -> str:
    """Return the text appended to a system text: without guided decoding it states the schema."""
    if structured == "json_schema":
        return COMPACT
    return f"{COMPACT}\n\nAnswer with one JSON object of this JSON schema:\n{schema_json(schema)}"


@lru_cache(maxsize=256)
def _response_format(
    schema: type[Answer], strict: bool, bounds: str, enums: Enums
) -> dict[str, Any]:
    shape = allowed(json.loads(schema_json(schema)), enums)
    name = re.sub(r"[^\w-]", "_", schema.__name__, flags=re.ASCII)[:64]
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "schema": _without(shape, DROPPED[bounds]), "strict": strict},
    }


def _without(node: Any, dropped: frozenset[str]) -> Any:
    """Drop keywords from a schema, but keep properties of the same names."""
    if isinstance(node, list):
        return [_without(item, dropped) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _without(child, dropped) for name, child in value.items()}
        if key in ("properties", "$defs")
        else value
        if key in ("const", "enum", "default", "examples")
        else _without(value, dropped)
        for key, value in node.items()
        if key not in dropped
    }


class _Message(pydantic.BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(pydantic.BaseModel):
    message: _Message
    finish_reason: str | None = None


class EndpointUsage(pydantic.BaseModel):
    """Tokens as an endpoint counts them, None where it does not."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(pydantic.BaseModel):
    choices: list[_Choice] = pydantic.Field(min_length=1)
    usage: EndpointUsage | None = None


class _StreamPiece(pydantic.BaseModel):
    delta: _Message = _Message()
    finish_reason: str | None = None


class _Chunk(pydantic.BaseModel):
    choices: list[_StreamPiece] = []
    usage: EndpointUsage | None = None


class Event(NamedTuple):
    """A line of a stream: a piece of text, or the end of the answer with its usage.

    `finish` is the reason for the end, "" before. `last` marks the final event.
    """

    text: str = ""
    finish: str = ""
    usage: EndpointUsage | None = None
    last: bool = False


def read_completion(body: bytes, call: Call) -> Reply:
    """Read a response of status 200; raises AttemptError if it is not a chat completion."""
    try:
        completion = _Completion.model_validate_json(body)
    except pydantic.ValidationError:
        raise AttemptError("server", f"not a chat completion: {body[:DETAIL_CHARS]!r}") from None
    choice = completion.choices[0]
    text, finish = choice.message.content or "", choice.finish_reason or "stop"
    if choice.message.refusal:
        text, finish = choice.message.refusal, finish.replace("content_filter", "stop")
    return as_reply(call, text, finish, completion.usage)


def as_reply(call: Call, text: str, finish: str, usage: EndpointUsage | None) -> Reply:
    """Make the reply from a text, its finish reason and the endpoint's token counts.

    Without counts, estimates tokens as a quarter of the UTF-8 bytes, so that budgets still work.
    Of a loop only the first copy is kept, and all of it is paid for.
    """
    usage = usage or EndpointUsage()
    tokens_in, tokens_out = usage.prompt_tokens, usage.completion_tokens
    if tokens_in is None:
        tokens_in = estimate_tokens(*(turn["content"] for turn in call.messages()))
    text = FILTERED if finish == "content_filter" else text
    kept, finish = ended(text, finish if finish in ("length", "looped") else "stop")
    return Reply(
        text=kept,
        finish=finish,
        tokens_in=tokens_in,
        tokens_out=estimate_tokens(text) if tokens_out is None else tokens_out,
    )


def estimate_tokens(*texts: str) -> int:
    """Estimate the tokens of texts as a quarter of their UTF-8 bytes, rounded up."""
    return -(-sum(len(text.encode("utf-8", "replace")) for text in texts) // 4)


def read_event(line: bytes) -> Event:
    """Read a line of a stream; comments and other fields become empty events.

    Raises AttemptError if the line violates the protocol or reports an error.
    """
    name, _, value = line.strip().partition(b":")
    if name != b"data" or not value.strip():
        return Event()
    if value.strip() == b"[DONE]":
        return Event(last=True)
    try:
        chunk = _Chunk.model_validate_json(value)
    except pydantic.ValidationError:
        raise AttemptError(
            "server", f"not a piece of an answer: {value[:DETAIL_CHARS]!r}"
        ) from None
    if not chunk.choices:
        if b'"error"' in value:
            raise AttemptError("server", f"the stream failed: {value[:DETAIL_CHARS]!r}")
        return Event(usage=chunk.usage)
    piece = chunk.choices[0]
    text = piece.delta.content or piece.delta.refusal or ""
    return Event(text, piece.finish_reason or "", chunk.usage)


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> AttemptError:
    """Make the error for a response whose status is not 200."""
    text = body.decode("utf-8", "replace")
    detail = f"HTTP {status}: {message_of(text)}"
    if status in HOPELESS or '"insufficient_quota"' in text:
        why = HOPELESS.get(status, "the quota is spent")
        return AttemptError("refused_call", f"{why} ({detail})", passing=False, hopeless=True)
    if status < 400:
        where = f"redirects to {headers.get('Location', '').partition('?')[0]}; set base_url"
        return AttemptError(
            "refused_call", f"{where} (HTTP {status})", passing=False, hopeless=True
        )
    if status in RETRIED or status >= 500:
        return AttemptError("server", detail, wait_s=retry_after(headers.get("Retry-After", "")))
    kind = "too_long" if status == 413 or _TOO_LONG.search(text) else "refused_call"
    return AttemptError(kind, detail, passing=False)


def message_of(text: str) -> str:
    """The message in the body of an error, or the body itself."""
    try:
        error = json.loads(text)
    except ValueError:
        return text
    for name in ("error", "message", "detail"):
        if isinstance(error, dict) and error.get(name):
            error = error[name]
    return error if isinstance(error, str) else text


def retry_after(value: str, now: float | None = None) -> float:
    """Read a Retry-After header, a number or an HTTP date, as seconds from 0 to MAX_WAIT_S."""
    try:
        if value.strip().isdecimal():
            seconds = float(value)
        else:
            then = email.utils.parsedate_to_datetime(value).timestamp()
            seconds = then - (time.time() if now is None else now)
    except (ValueError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), MAX_WAIT_S)


def backoff(retry: int, wait_s: float, jitter: float) -> float:
    """Seconds to wait before a retry (numbered from 0): `wait_s` plus a random backoff.

    The backoff is 50 to 100 % of a delay that doubles from 0.5 s to 30 s. It adds to the wait that
    the endpoint asked for, so that refused calls do not return together. `jitter` is in [0, 1).
    """
    return wait_s + min(BACKOFF_S * 2.0**retry, MAX_BACKOFF_S) * (0.5 + 0.5 * jitter)
