"""The errors that answer a request: each has an HTTP status, a code and a one-line message."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field

from srrag.core.errors import Halt, SrragError

_LONGEST_S = 30
"""Longest wait that a Retry-After header is based on, in seconds."""


def back_in_s(wait_s: float) -> int:
    """Whole seconds for Retry-After (RFC 9110, 10.2.3): one to two times the wait, at random.

    The jitter keeps clients that were refused together from returning at the same moment.
    """
    least = min(max(1, math.ceil(wait_s)), _LONGEST_S)
    return random.randint(least, 2 * least)


class ApiError(SrragError):
    """An error that becomes the HTTP response of a request."""

    def __init__(
        self, status: int, code: str, message: str, field: str = "", retry_s: float = 0.0
    ) -> None:
        """Keep the parts of the response; `field` names the invalid part of the request."""
        super().__init__(message)
        self.status, self.code, self.message, self.field = status, code, message, field
        self.retry_s = retry_s

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with all fields, so that it can travel between processes."""
        told = (self.status, self.code, self.message, self.field, self.retry_s)
        return ApiError, told

    def headers(self) -> dict[str, str]:
        """The headers Retry-After, or WWW-Authenticate for a missing key."""
        if self.status == 401:
            return {"WWW-Authenticate": "Bearer"}
        if not self.retry_s:
            return {}
        # The wait for a rate limit is exact; that for a queue is an estimate and gets jitter.
        wait = math.ceil(self.retry_s) if self.status == 429 else back_in_s(self.retry_s)
        return {"Retry-After": str(wait)}

    def body(self, request_id: str) -> dict[str, Any]:
        """The JSON body; OpenAI's clients read `type`, `param`, `code` and `message`."""
        kind = "invalid_request_error" if self.status < 429 else "server_error"
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "field": self.field or None,
                "param": self.field or None,
                "type": "rate_limit_error" if self.status == 429 else kind,
                "request_id": request_id,
            }
        }


async def send_fault(
    fault: ApiError, request_id: str, send: Any, headers: Mapping[str, str] | None = None
) -> None:
    """Send an error as the whole response of an ASGI app."""
    body = json.dumps(fault.body(request_id)).encode()
    own = {"content-type": "application/json", "content-length": str(len(body))}
    named = {**own, **fault.headers(), **(headers or {})}
    start = {"type": "http.response.start", "status": fault.status}
    await send({**start, "headers": encoded(named)})
    await send({"type": "http.response.body", "body": body})


def encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as ASGI has them."""
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]


class ErrorDetail(BaseModel):
    """Why there is no answer; OpenAI's clients read `type`, `param`, `code` and `message`."""

    code: str = Field(description="what went wrong, in one word, for programs")
    message: str = Field(description="the same in one line, for people")
    field: str | None = Field(description="the part of the request that is at fault")
    param: str | None
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    request_id: str = Field(description="as in X-Request-Id and in the log")


class ErrorJson(BaseModel):
    """The body of every response that is no answer."""

    error: ErrorDetail


class Refused(Halt):
    """Refuses a whole batch because another deployment is at its limit."""

    def __init__(self, fault: ApiError) -> None:
        """Keep the error that answers each request of the batch."""
        super().__init__(fault.message)
        self.fault = fault


def busy(retry_s: float) -> ApiError:
    """The error (503) for a full queue."""
    return ApiError(503, "busy", "too many questions wait; try again later", retry_s=retry_s)


def stopping() -> ApiError:
    """The error (503) of a server that is starting or stopping."""
    return ApiError(503, "not_ready", "the server is starting or stopping", retry_s=2.0)


def late() -> ApiError:
    """The error (504) for a request whose deadline has passed."""
    return ApiError(504, "deadline", "no answer within the time that the request was given")
