"""Why a request gets no answer: each fault has a status, a code and one line."""

from __future__ import annotations

import math
import random
from typing import Any, Literal

from pydantic import BaseModel, Field

from srrag.llm.completion import EngineStopped

_LONGEST_S = 30
"""A longer wait is not foretold."""


def back_in_s(wait_s: float) -> int:
    """In how many whole seconds (RFC 9110, 10.2.3) to come back: the wait, or up to twice as many.

    Drawn by lot: who was refused together would come back in the same moment, and wait for all
    the others to be refused again.
    """
    least = min(max(1, math.ceil(wait_s)), _LONGEST_S)
    return random.randint(least, 2 * least)


class ApiError(Exception):
    """A request that cannot be answered, as its caller is told."""

    def __init__(
        self, status: int, code: str, message: str, field: str = "", retry_s: float = 0.0
    ) -> None:
        """Keep what is told; `field` names the part of the request that is at fault."""
        super().__init__(message)
        self.status, self.code, self.message, self.field = status, code, message, field
        self.retry_s = retry_s

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between processes with all that is told."""
        told = (self.status, self.code, self.message, self.field, self.retry_s)
        return ApiError, told

    def headers(self) -> dict[str, str]:
        """When to come back, and how to give a key."""
        if self.status == 401:
            return {"WWW-Authenticate": "Bearer"}
        if not self.retry_s:
            return {}
        # A key's own limit is known to the second; how long a queue takes is not.
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


class Refused(EngineStopped):
    """A whole batch gets no answer, by no fault of its rows: another deployment is at its limit."""

    def __init__(self, fault: ApiError) -> None:
        """Keep what each of its requests is told."""
        super().__init__(fault.message)
        self.fault = fault


def busy(retry_s: float) -> ApiError:
    """The queue is full."""
    return ApiError(503, "busy", "too many questions wait; try again later", retry_s=retry_s)


def stopping() -> ApiError:
    """The server ends or is not up yet."""
    return ApiError(503, "not_ready", "the server is starting or stopping", retry_s=2.0)


def late() -> ApiError:
    """The deadline of the request passed."""
    return ApiError(504, "deadline", "no answer within the time that the request was given")
