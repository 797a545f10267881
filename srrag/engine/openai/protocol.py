"""Reads what endpoints of the chat completions API reply, without trust: pure functions."""

from __future__ import annotations

import email.utils
import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from srrag.core.errors import EngineError
from srrag.engine.base import Call, Reply
from srrag.llm.completion import Fault, one_line
from srrag.llm.read_answer import ended

MAX_BODY_BYTES = 8 * 1024**2
TOKEN_BYTES = 4
"""Bytes per token in estimates."""
MAX_TOKEN_BYTES = 16
"""Bytes per token of a stream beyond which it is longer than it was to be, and cut off."""
HIDDEN_TOKENS = 2**17
"""Tokens beyond its limit up to which an answer is believed to have thought without showing it."""
MAX_WAIT_S = 120.0
"""The longest Retry-After that is waited for, in seconds; a longer one ends the run."""
BACKOFF_S, MAX_BACKOFF_S = 0.5, 30.0
FILTERED = "I cannot answer: the content filter of the endpoint withheld the answer."
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
_FINISHES = {
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), "length"),
    **dict.fromkeys(("content_filter", "safety", "sensitive", "recitation"), "content_filter"),
    **dict.fromkeys(("error", "abort", "network_error"), "broken"),
}
"""Finish reasons of endpoints other than "stop" and its like, as they are called here."""
_THOUGHTS = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_MESSAGES = ("error", "errors", "message", "msg", "detail", "title")
_TAG = re.compile(r"<(?:style|script).*?</(?:style|script)>|<[^>]*>", re.DOTALL | re.IGNORECASE)


class AttemptError(EngineError):
    """A failed attempt.

    `passing`: the failure is transient, and a retry after `wait_s` seconds may succeed. `refused`:
    the endpoint refused the connection. `hopeless`: every other call would fail likewise. `reply`
    is what a stream held before it broke off.
    """

    reply: Reply | None = None

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


class Said(NamedTuple):
    """What a message, or a piece of one, holds."""

    text: str = ""
    thought: str = ""
    refusal: str = ""


class Event(NamedTuple):
    """A line of a stream: a piece of the answer, or its end with its usage.

    `finish` is the reason for the end, "" before. `last` marks the final event.
    """

    said: Said = Said()
    finish: str = ""
    usage: Any = None
    last: bool = False


def read_completion(body: bytes, call: Call, limit: int, added: str = "") -> Reply:
    """Read a response of status 200; raises AttemptError if it is not a chat completion."""
    told = _object(body, "not a chat completion")
    choice = next(_choices(told), None)
    if choice is None or not isinstance(choice.get("message"), dict):
        raise AttemptError("server", f"not a chat completion: {message_of(told) or body!r}")
    said = _said(choice["message"])
    if told.get("error") and not any(said):
        raise AttemptError("server", f"the answer broke off: {message_of(told)}")
    return as_reply(call, said, _finish(choice, said), told.get("usage"), limit, added)


def as_reply(call: Call, said: Said, finish: str, usage: Any, limit: int, added: str = "") -> Reply:
    """Make the reply from what was said, its finish reason and the endpoint's token counts.

    Thinking stays in the text, before the answer. Of a loop only the first copy is kept, and all of
    it is paid for. `limit` is the most tokens that the answer was to have, `added` what the session
    appended to the call's texts.
    """
    text = said.text
    if said.refusal and not text:
        text, finish = said.refusal, "stop"
    if finish == "content_filter":
        text = f"{FILTERED}\n{text}".strip()
    if said.thought:
        text = f"<think>{said.thought}</think>\n{text}"
    kept, finish = ended(text, finish if finish in ("length", "looped") else "stop")
    return replace(counted(call, text, usage, limit, added), text=kept, finish=finish)


def counted(call: Call, text: str, usage: Any, limit: int, added: str = "") -> Reply:
    """The tokens that an endpoint may be believed, with a note on what is odd about its counts.

    Below half of our own estimate (zero, negative, none at all) the estimate counts. Above what the
    prompt and the answer, with hidden thinking, can hold, that bound counts.
    """
    usage = usage if isinstance(usage, dict) else {}
    own_in = estimate_tokens(*(turn["content"] for turn in call.messages()), added)
    own_out = estimate_tokens(text)
    told_in = _number(usage.get("prompt_tokens"))
    told_out = _number(usage.get("completion_tokens"))
    if min(told_in or 0, told_out or 0) > 0:  # some count the tokens of thinking in the sum alone
        told_out = max(told_out or 0, (_number(usage.get("total_tokens")) or 0) - (told_in or 0))
    tokens_in, tokens_out = (
        own if told is None or 2 * told < own else min(told, max(own, most))
        for told, own, most in (
            (told_in, own_in, call.most_tokens_in),
            (told_out, own_out, limit + HIDDEN_TOKENS),
        )
    )
    details = usage.get("completion_tokens_details")
    thought = _number(details.get("reasoning_tokens")) if isinstance(details, dict) else None
    notes = []
    if told_in is not None and 0 < 2 * told_in < own_in:
        notes.append(
            f"it counted {told_in} tokens in a prompt of about {own_in:,}: is its context smaller "
            "than the prompts, so that they are cut?"
        )
    if tokens_out > max(limit, 2 * own_out):  # most of it is not shown
        notes.append(
            f"it counted {told_out:,} tokens where {limit:,} were allowed: set engine.thinking"
        )
        thought = thought or tokens_out - own_out
    return Reply(
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        tokens_thought=min(max(thought or 0, 0), tokens_out),
        note="; ".join(notes),
    )


def estimate_tokens(*texts: str) -> int:
    """Estimate the tokens of texts as a quarter of their UTF-8 bytes, rounded up."""
    return -(-sum(len(text.encode("utf-8", "replace")) for text in texts) // TOKEN_BYTES)


def read_event(line: bytes) -> Event:
    """Read a line of a stream; comments and other fields become empty events.

    Raises AttemptError if the line violates the protocol or reports an error.
    """
    name, _, value = line.strip().partition(b":")
    if name == b"error" and value:
        raise AttemptError("server", f"the stream failed: {value!r}")
    if name != b"data" or not value.strip():
        return Event()
    if value.strip() == b"[DONE]":
        return Event(last=True)
    told = _object(value, "not a piece of an answer")
    if told.get("error") or told.get("object") == "error":
        raise AttemptError("server", f"the stream failed: {message_of(told)}")
    choice = next(_choices(told), None)
    if choice is None:
        return Event(usage=told.get("usage"))
    delta = choice.get("delta") or choice.get("message")
    said = _said(delta) if isinstance(delta, dict) else Said()
    finish = _finish(choice, said) if choice.get("finish_reason") else ""
    return Event(said, finish, told.get("usage"))


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
        wait_s = retry_after(headers.get("Retry-After", ""))
        if wait_s > MAX_WAIT_S:
            why = f"it asks to wait {wait_s:.0f} s ({detail})"
            return AttemptError("server", why, passing=False, hopeless=True)
        return AttemptError("server", detail, wait_s=wait_s)
    kind = "too_long" if status == 413 or _TOO_LONG.search(text) else "refused_call"
    return AttemptError(kind, detail, passing=False)


def message_of(told: Any, depth: int = 6) -> str:
    """The message in the body of an error, wherever endpoints put it, or the body itself."""
    if isinstance(told, str):
        try:
            inner = json.loads(told)
        except (ValueError, RecursionError):
            inner = None
        if isinstance(inner, dict | list) and inner and depth:
            return message_of(inner, depth - 1)
        return _TAG.sub(" ", told).strip() or told
    if isinstance(told, list) and told and depth:
        return message_of(told[0], depth - 1)
    if isinstance(told, dict) and depth:
        found = next((told[name] for name in _MESSAGES if told.get(name)), None)
        place = ".".join(map(str, told["loc"])) if isinstance(told.get("loc"), list) else ""
        raw = told["metadata"].get("raw") if isinstance(told.get("metadata"), dict) else None
        parts = [place, *(message_of(each, depth - 1) for each in (found, raw) if each)]
        if any(parts[1:]):
            return ": ".join(filter(None, parts))
    return "" if told is None else json.dumps(told, default=str)


def retry_after(value: str, now: float | None = None) -> float:
    """Read a Retry-After header, a number or an HTTP date, as seconds; 0 where it is neither."""
    try:
        if value.strip().isdecimal():
            seconds = float(value)
        else:
            then = email.utils.parsedate_to_datetime(value).timestamp()
            seconds = then - (time.time() if now is None else now)
    except (ValueError, OverflowError):
        return 0.0
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0


def backoff(retry: int, wait_s: float, jitter: float) -> float:
    """Seconds to wait before a retry (numbered from 0): `wait_s` plus a random backoff.

    The backoff is 50 to 100 % of a delay that doubles from 0.5 s to 30 s. It adds to the wait that
    the endpoint asked for, so that refused calls do not return together. `jitter` is in [0, 1).
    """
    return wait_s + min(BACKOFF_S * 2.0**retry, MAX_BACKOFF_S) * (0.5 + 0.5 * jitter)


def _object(body: bytes, wrong: str) -> dict[str, Any]:
    """Parse a JSON object; raises AttemptError that shows anything else."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        shown = message_of(body[: 4 * DETAIL_CHARS].decode("utf-8", "replace"))
        raise AttemptError("server", f"{wrong}: {shown!r}")
    return told


def _choices(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    choices = told.get("choices")
    if isinstance(choices, list):
        yield from (choice for choice in choices if isinstance(choice, dict))


def _finish(choice: dict[str, Any], said: Said) -> str:
    """The finish reason of a choice; raises AttemptError if it broke off with nothing said."""
    told = str(choice.get("finish_reason") or "stop").lower()
    finish = _FINISHES.get(told, "stop")
    if finish == "broken" and not said.text:
        why = message_of(choice.get("error")) or f"finish_reason {told}"
        raise AttemptError("server", f"the answer broke off: {why}")
    return "length" if finish == "broken" else finish


def _said(message: dict[str, Any]) -> Said:
    """Read a message or a delta; raises AttemptError if its content is of no known kind."""
    content = message.get("content")
    if not isinstance(content, str | list | dict | None):
        raise AttemptError("server", f"not a chat completion: its content is {content!r}")
    parts = _parts(content)
    text = "".join(part.text for part in parts) or _arguments(message)
    shown = ("".join(t.text + t.thought for t in _parts(message.get(name))) for name in _THOUGHTS)
    thought = next(filter(None, shown), "")
    refusal = message.get("refusal")
    return Said(
        text,
        thought or "".join(part.thought for part in parts),
        refusal if isinstance(refusal, str) else "".join(part.refusal for part in parts),
    )


def _parts(content: Any) -> list[Said]:
    """The parts of a content: a text, a list of parts, the object itself; none of anything else."""
    if isinstance(content, str):  # half of a surrogate pair cannot be encoded
        return [Said(content.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))]
    if isinstance(content, list):
        return [part for each in content for part in _parts(each)]
    if not isinstance(content, dict):
        return []
    kind = str(content.get("type", ""))
    if "think" in kind or "reasoning" in kind:
        inner = next((content[n] for n in ("thinking", "text", "summary") if content.get(n)), None)
        return [Said(thought="".join(part.text for part in _parts(inner)))]
    if isinstance(content.get("text"), str):
        return _parts(content["text"])
    if isinstance(content.get("refusal"), str):
        return [Said(refusal=content["refusal"])]
    return [] if kind else [Said(json.dumps(content, ensure_ascii=False))]


def _arguments(message: dict[str, Any]) -> str:
    """The arguments of calls of tools, which some models make instead of answering."""
    calls = message.get("tool_calls")
    tools = [each for each in calls if isinstance(each, dict)] if isinstance(calls, list) else []
    called = [each.get("function") for each in tools] + [message.get("function_call")]
    given = [each.get("arguments") for each in called if isinstance(each, dict)]
    return "\n".join(
        each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)
        for each in given
        if each
    )


def _number(value: Any) -> int | None:
    """A count, rounded up; None for what is none."""
    try:
        return None if isinstance(value, bool) else math.ceil(float(value))
    except (TypeError, ValueError, OverflowError):
        return None
