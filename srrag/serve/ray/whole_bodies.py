"""Reads the bodies of requests in Ray's HTTP proxy, and passes a request on once its body is whole.

Each message of a body that a replica receives is a call to the proxy. So senders of half bodies
would cost both processes far more than they cost where their socket ends.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from srrag.serve.api.slow_bodies import SlowBodies
from srrag.serve.errors import ApiError
from srrag.serve.ray.refusals import answer
from srrag.serve.settings import Limits

VARIABLE = "SRRAG_PROXY_BODIES"
"""The environment variable of a node whose proxy has other limits than the default ones: JSON."""

BEGAN = "srrag.began"
"""Where the scope of a request says when its body began to arrive, on the monotonic clock."""

_NAMES = ("body_s", "slow_bodies", "max_body_bytes")


def told(limits: Limits) -> str:
    """What the environment variable holds for these limits."""
    return json.dumps({name: getattr(limits, name) for name in _NAMES})


def limits_told() -> Limits:
    """The limits that the environment states; raises ValueError for others than those of bodies."""
    given = json.loads(os.environ.get(VARIABLE, "{}"))
    if unknown := set(given) - set(_NAMES):
        raise ValueError(f"{VARIABLE}: {min(unknown)} is no limit of bodies")
    return Limits(**given)


class WholeBodies:
    """Wraps the proxy's app, which hears of a request with a body when all of it has arrived.

    A longer body than is allowed is passed on as soon as that is known, for the app to refuse.
    """

    def __init__(self, app: Any, limits: Limits) -> None:
        """Bind the app; no body is arriving yet."""
        self._app, self._most = app, limits.max_body_bytes
        self._slow = SlowBodies(limits.body_s, limits.slow_bodies)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Read the body and pass the request on, or answer 408 if it does not come in time."""
        if scope["type"] != "http" or not _has_body(scope["headers"], self._most):
            await self._app(scope, receive, send)
            return
        began, body, whole = time.monotonic(), bytearray(), False
        try:
            while not whole and len(body) <= self._most:
                message = await self._slow.message(receive, began)
                if message["type"] == "http.disconnect":
                    return  # nobody waits for an answer
                body += message.get("body", b"")
                whole = not message.get("more_body", False)
        except ApiError as fault:
            # Closed, so that the rest of the body is not waited for either.
            await answer(fault, scope, send, {"connection": "close"})
            return
        await self._app({**scope, BEGAN: began}, _with(bytes(body), whole, receive), send)


def _has_body(headers: list[tuple[bytes, bytes]], most: int) -> bool:
    """Whether a body follows the head; one that the head calls too long counts as none."""
    for name, value in headers:
        if name.lower() == b"content-length":
            return value.isdigit() and 0 < int(value) <= most
        if name.lower() == b"transfer-encoding":
            return True
    return False


def _with(body: bytes, whole: bool, receive: Any) -> Any:
    """Return a `receive` that first returns the body, or its beginning."""
    first: list[Any] = [{"type": "http.request", "body": body, "more_body": not whole}]

    async def received() -> Any:
        return first.pop() if first else await receive()

    return received
