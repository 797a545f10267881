"""Answers that Ray's HTTP proxy gives by itself, in the format of the API."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from srrag.serve.errors import ApiError

OWN = b"x-content-type-options"
"""A header that every response of the app has, and no response of Ray itself."""


async def answer(
    fault: ApiError, scope: Any, send: Any, headers: Mapping[str, str] | None = None
) -> None:
    """Send an error as the whole response."""
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    body = json.dumps(fault.body(given or uuid.uuid4().hex)).encode()
    own = {"content-type": "application/json", "content-length": str(len(body))}
    named = {**own, **fault.headers(), **(headers or {})}
    pairs = [(name.lower().encode(), value.encode()) for name, value in named.items()]
    pairs.append((OWN, b"nosniff"))
    await send({"type": "http.response.start", "status": fault.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
