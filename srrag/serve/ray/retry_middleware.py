"""ASGI middlewares of Ray Serve: around the app of Ray's HTTP proxy, and around that of a replica.

Every proxy of a cluster loads `middlewares` by the import path in the environment variable
RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from ray.exceptions import TaskCancelledError
from starlette.middleware import Middleware

from srrag.serve.errors import ApiError, send_fault
from srrag.serve.settings import Limits

CALLBACK = "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"
IMPORT_PATH = "srrag.serve.ray.retry_middleware:middlewares"

BODIES = "SRRAG_PROXY_BODIES"
"""The environment variable of a node whose proxy has other limits than the default ones: JSON."""

TRIES = 3
"""Attempts per request. The limit stops a request that itself kills replicas."""

SLOW_S = 1.0
"""Seconds after which a body counts as slow."""

_OWN = "x-content-type-options"
"""A header that every response of the app has, and no response of Ray itself."""

_OF_RAY = (404, 429, 503)
"""What Ray itself answers: before the app is up it knows no route, and a full queue is refused."""

_LIMITS = ("body_s", "slow_bodies", "max_body_bytes")


def told(limits: Limits) -> str:
    """What the environment variable BODIES holds for these limits."""
    return json.dumps({name: getattr(limits, name) for name in _LIMITS})


def limits_told() -> Limits:
    """The limits that the environment states; raises ValueError for others than those of bodies."""
    given = json.loads(os.environ.get(BODIES, "{}"))
    if unknown := set(given) - set(_LIMITS):
        raise ValueError(f"{BODIES}: {min(unknown)} is no limit of bodies")
    return Limits(**given)


def middlewares() -> list[Middleware]:
    """The middlewares in which Ray's proxy wraps its app."""
    return [Middleware(RetryOnReplicaDeath, limits_told())]


class SlowBodies:
    """Waits for the messages of bodies: each has `deadline_s`, and at most `most` may be slow.

    One more slow body cuts the oldest off, so that whoever sends bodies byte by byte keeps places
    only from others who do.
    """

    def __init__(self, deadline_s: float, most: int) -> None:
        """Set the limits; no body is arriving yet."""
        self._deadline_s, self._most = deadline_s, most
        self._arriving: dict[int, tuple[float, asyncio.Future[Any]]] = {}

    async def message(self, receive: Callable[[], Awaitable[Any]], began: float) -> Any:
        """The next message of a request that began at `began`; raises ApiError (408)."""
        now = time.monotonic()
        self._make_room(now)
        coming = asyncio.ensure_future(receive())
        self._arriving[id(coming)] = (began, coming)
        try:
            await asyncio.wait({coming}, timeout=max(0.0, began + self._deadline_s - now))
            if coming.done() and not coming.cancelled():
                return coming.result()
            raise ApiError(408, "slow_body", "the body did not arrive in time", "body")
        finally:
            del self._arriving[id(coming)]
            coming.cancel()

    def _make_room(self, now: float) -> None:
        slow = [each for each in self._arriving.values() if now - each[0] > SLOW_S]
        if len(slow) >= self._most:
            min(slow, key=lambda each: each[0])[1].cancel()


class RetryOnReplicaDeath:
    """Wraps the proxy's app: passes requests on whole, and again if one ends without a response.

    Each message of a body that a replica receives is a call to the proxy, so senders of half bodies
    would cost both processes far more than they cost here. A longer body than is allowed is passed
    on as soon as that is known, once, for the app to refuse. Questions have no side effects, so a
    retry is safe. A refusal by Ray itself, for a full queue or an app that starts, becomes an error
    in the API's format.
    """

    def __init__(self, app: Any, limits: Limits) -> None:
        """Bind the app; no body is arriving yet."""
        self._app, self._most = app, limits.max_body_bytes
        self._slow = SlowBodies(limits.body_s, limits.slow_bodies)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Read the body, then send the request up to TRIES times, until there is a response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, coming, outgoing = time.monotonic(), _Coming(receive), _Outgoing(send)
        try:
            await self._read(coming, began)
        except ApiError as fault:
            # Closed, so that the rest of the body is not waited for either.
            await _refuse(fault, scope, send, {"connection": "close"})
            return
        for _ in range(TRIES):
            if coming.gone:
                return  # nobody waits for an answer
            await self._app(_later(scope, time.monotonic() - began), coming.replayed(), outgoing)
            if outgoing.refused:
                break
            if outgoing.started or len(coming.body) > self._most:
                return
        message = "the server is busy or starting; try again later"
        code = "busy" if outgoing.refused else "lost"
        await _refuse(ApiError(503, code, message, retry_s=1.0), scope, send)

    async def _read(self, coming: _Coming, began: float) -> None:
        """Wait for the whole body, or more of it than is allowed; raises ApiError (408)."""
        while not (coming.whole or coming.gone) and len(coming.body) <= self._most:
            message = await self._slow.message(coming.next, began)
            coming.body += message.get("body", b"")
            coming.whole = not message.get("more_body", False)


class _Coming:
    """The messages of a request: its body, as far as it was read, and what comes after it."""

    def __init__(self, receive: Any) -> None:
        self._receive = receive
        self.body = bytearray()
        self.whole = self.gone = False

    async def next(self) -> Any:
        message = await self._receive()
        self.gone = self.gone or message["type"] == "http.disconnect"
        return message

    def replayed(self) -> Any:
        """Return a `receive` that first returns the body."""
        body, more = bytes(self.body), not self.whole
        first = [{"type": "http.request", "body": body, "more_body": more}]

        async def received() -> Any:
            return first.pop() if first else await self.next()

        return received


class _Outgoing:
    """Passes responses on, and holds back Ray's own refusals."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self.started = self.refused = False

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            own = any(name.lower() == _OWN.encode() for name, _ in message["headers"])
            self.refused = message["status"] in _OF_RAY and not own
            self.started = not self.refused
        if not self.refused:
            await self._send(message)


async def _refuse(
    fault: ApiError, scope: Any, send: Any, headers: dict[str, str] | None = None
) -> None:
    """Answer with an error under the request's own id, or a new one."""
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    own = {_OWN: "nosniff", **(headers or {})}
    await send_fault(fault, given or uuid.uuid4().hex, send, own)


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


class EndOnDisconnect:
    """Wraps a replica's app: a client who leaves ends a request, and is no error.

    A replica receives messages by a call to Ray's proxy, and Ray may cancel that call before it
    cancels the request.
    """

    def __init__(self, app: Any) -> None:
        """Bind the app."""
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Run the app; a cancelled `receive` becomes the message `http.disconnect`."""

        async def received() -> Any:
            try:
                return await receive()
            except TaskCancelledError:
                return {"type": "http.disconnect"}

        await self._app(scope, received, send)
