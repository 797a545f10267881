"""Retries, in Ray's HTTP proxy, requests whose replica died before it sent a response.

Questions have no side effects, so a retry is safe. Every proxy of a cluster loads `middlewares` by
the import path in the environment variable RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH.
"""

from __future__ import annotations

import time
from typing import Any

from starlette.middleware import Middleware

from srrag.serve.errors import ApiError
from srrag.serve.ray.refusals import OWN, answer
from srrag.serve.ray.whole_bodies import BEGAN, WholeBodies, limits_told

VARIABLE = "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"
IMPORT_PATH = "srrag.serve.ray.retry_middleware:middlewares"

TRIES = 3
"""Attempts per request. The limit stops a request that itself kills replicas."""

MAX_KEPT_BYTES = 1 << 20
"""Largest body that is kept for a retry; a request with a longer one is sent once."""

_OF_RAY = (404, 429, 503)
"""What Ray itself answers: before the app is up it knows no route, and a full queue is refused."""


def middlewares() -> list[Middleware]:
    """The middlewares in which Ray's proxy wraps its app, the outermost last."""
    return [Middleware(RetryOnReplicaDeath), Middleware(WholeBodies, limits_told())]


class RetryOnReplicaDeath:
    """Wraps the proxy's app, and retries when it ends without a response.

    A refusal by Ray itself, for a full queue or an app that starts, becomes an error in the API's
    format.
    """

    def __init__(self, app: Any) -> None:
        """Bind the app."""
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the request up to TRIES times, until there is a response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        kept, outgoing = _Kept(receive), _Outgoing(send)
        began = scope.get(BEGAN, time.monotonic())
        for _ in range(TRIES):
            await self._app(_later(scope, time.monotonic() - began), kept.replayed(), outgoing)
            if outgoing.refused:
                break
            if outgoing.started or kept.gone or kept.too_long:
                return
        message = "the server is busy or starting; try again later"
        fault = ApiError(503, "busy" if outgoing.refused else "lost", message, retry_s=1.0)
        await answer(fault, scope, send)


class _Kept:
    """Records the messages of a request, so that an app can receive them again."""

    def __init__(self, receive: Any) -> None:
        self._receive = receive
        self._messages: list[Any] = []
        self._bytes = 0
        self.gone = False

    @property
    def too_long(self) -> bool:
        return self._bytes > MAX_KEPT_BYTES

    def replayed(self) -> Any:
        """Return a `receive` that first repeats the recorded messages."""
        place = 0

        async def received() -> Any:
            nonlocal place
            if place == len(self._messages):
                message = await self._receive()
                self.gone = self.gone or message["type"] == "http.disconnect"
                self._bytes += len(message.get("body", b""))
                if self.too_long:
                    return message
                self._messages.append(message)
            place += 1
            return self._messages[place - 1]

        return received


class _Outgoing:
    """Passes responses on, and holds back Ray's own refusals."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self.started = self.refused = False

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            own = any(name.lower() == OWN for name, _ in message["headers"])
            self.refused = message["status"] in _OF_RAY and not own
            self.started = not self.refused
        if not self.refused:
            await self._send(message)


def _later(scope: Any, seconds: float) -> Any:
    """Copy a request with the elapsed seconds subtracted from its X-Timeout-S header."""

    def left(name: bytes, value: bytes) -> bytes:
        if name.lower() == b"x-timeout-s" and seconds > 0.1:
            try:
                return f"{max(0.001, float(value) - seconds):.3f}".encode()
            except ValueError:
                return value
        return value

    return {**scope, "headers": [(name, left(name, value)) for name, value in scope["headers"]]}
