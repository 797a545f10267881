"""Middleware in front of every request: API key, rate limit, body size, deadline and headers.

It is plain ASGI, so that it counts bodies while they arrive and passes streams through unbuffered.
"""

from __future__ import annotations

import re
import time
import uuid
from collections import Counter
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from srrag.serve.errors import ApiError, busy, encoded, send_fault
from srrag.serve.service import PipelineService
from srrag.serve.settings import is_loopback, owner
from srrag.serve.telemetry import StepSpans

_FOLDER = Path(__file__).parents[1] / "page"
_NAMES = {
    "/": "ask.html",
    "/runs": "runs.html",
    "/graph": "graph.html",
    **{f"/{file.name}": file.name for file in _FOLDER.iterdir() if file.suffix in (".css", ".js")},
}

CACHED = "private, no-cache"
"""A browser keeps a file, and asks each time whether it still stands."""

PAGE_PATHS = tuple(_NAMES)
"""Paths that need no key, since these files hold nothing of the corpus."""


def add_pages(app: FastAPI) -> None:
    """Add a route for each file, compressed where the browser takes it."""
    files, packed = StaticFiles(directory=_FOLDER), [Middleware(GZipMiddleware)]
    for path, name in _NAMES.items():
        app.router.routes.append(Route(path, partial(_answer, files, name), middleware=packed))


async def _answer(files: StaticFiles, name: str, request: Request) -> Response:
    response = await files.get_response(name, request.scope)
    response.headers["cache-control"] = CACHED
    return response


Scope = Any
OPEN_PATHS = ("/healthz", "/readyz", *PAGE_PATHS)
"""Paths that need no key, since their answers reveal nothing of the corpus."""

BARE_PATHS = ("/admin/reload",)
"""POST paths that need no JSON body: the key header alone makes browsers send a preflight."""

ROLE_PATHS = {"/admin/": "admin", "/v1/runs": "runs"}
"""Beginnings of paths and the role that a key needs for them; the others need none."""

QUEUED_PATHS = (
    "/v1/answers", "/v1/answers/stream", "/v1/chat/completions", "/v1/search",
    "/v1/rerank", "/v1/synthesis",
)  # fmt: skip
"""Paths whose requests wait in the queue for a worker."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_TRACED = ("pipeline", "version", "batch_rows", "code")
_ID = re.compile(r"[\w.-]{1,64}")


@dataclass(eq=False)
class RequestContext:
    """The state of one request: its id, its deadline and the fields of its log line."""

    id: str
    began: float
    deadline: float
    caller: str = ""
    counted: str = ""
    """The key or address under which it counts as in progress."""
    status: int = 0
    gone: bool = False
    """Whether the client has disconnected."""
    fault: ApiError | None = None
    """Why reading the request body failed; frameworks hide the reason."""
    steps: StepSpans | None = None
    notes: dict[str, Any] = field(default_factory=dict)


class Gateway:
    """Wraps an ASGI app and puts each request's RequestContext into its scope as `passing`."""

    def __init__(self, app: Any, host: PipelineService) -> None:
        """Bind the app and the service whose settings, metrics and logs apply."""
        self._app, self._host, self._settings = app, host, host.settings
        self._metrics, self._log, self._traces = host.metrics, host.log, host.traces
        self._at_once: Counter[str] = Counter()
        """The requests in progress of each key or address."""

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Pass a request on to the app, or answer it with the error that refuses it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        given = headers.get("x-request-id", "")
        now = time.monotonic()
        id = given if _ID.fullmatch(given) else uuid.uuid4().hex
        passing = RequestContext(id, now, now + self._settings.limits.timeout_s)
        scope["passing"] = passing

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                if passing.gone:  # no client reads this error, so it is not counted
                    passing.notes.pop("code", None)
                else:
                    passing.status = message["status"]
                # Ray's proxy gives every request an id, and returns it by itself.
                own = _HEADERS if id == given else {**_HEADERS, "x-request-id": id}
                names = {name.decode().lower() for name, _ in message["headers"]}
                if "etag" in names:  # a file of the pages, which says itself how long it lasts
                    own = {k: v for k, v in own.items() if k != "cache-control"}
                kept = [pair for pair in message["headers"] if pair[0].decode().lower() not in own]
                message["headers"] = [*kept, *encoded(own)]
            await send(message)

        try:
            self._check(scope, headers, passing)
            async with self._turn(scope["path"], passing):
                await self._app(scope, self._capped(receive, passing), sent)
        except ApiError as fault:
            if passing.status:
                raise
            passing.notes["code"] = fault.code
            await send_fault(fault, passing.id, sent)
        finally:
            self._leave(passing)
            self._told(scope, headers, passing)

    def _enter(self, client: str, passing: RequestContext) -> None:
        """Count a request of a key or address; raises ApiError (429) above the limit."""
        if self._at_once[client] >= self._settings.limits.per_caller:
            raise ApiError(429, "at_once", "too many requests of this key at once", retry_s=1.0)
        self._at_once[client] += 1
        passing.counted = client

    def _turn(self, path: str, passing: RequestContext) -> AbstractAsyncContextManager[None]:
        """The turn of a request's caller; what needs no key, and a reload, has none."""
        if not passing.counted or path in BARE_PATHS:
            return nullcontext()
        return self._host.turns.request(passing.counted, passing.deadline)

    def _leave(self, passing: RequestContext) -> None:
        if passing.counted:
            self._at_once[passing.counted] -= 1
            if not self._at_once[passing.counted]:
                del self._at_once[passing.counted]

    def _check(self, scope: Scope, headers: dict[str, str], passing: RequestContext) -> None:
        settings, path = self._settings, scope["path"]
        client = (scope.get("client") or ("",))[0]
        if not (settings.keys or (is_loopback(client) and _is_local(headers.get("host", "")))):
            # A client can forge the Host header but not its address. A page of another site whose
            # name was rebound to this machine has a local address, but that site's name as host.
            raise ApiError(403, "host", "without API keys only this machine is served")
        if settings.keys and path not in OPEN_PATHS:
            name = owner(settings.keys, _key(headers))
            if name is None:
                raise ApiError(401, "unauthorized", "a valid API key is needed")
            needed = next(
                (role for at, role in ROLE_PATHS.items() if path.startswith(at)), "reader"
            )
            if not settings.keys[name].may(needed):
                raise ApiError(403, "role", f"this key's role is not {needed}")
            passing.caller = name
        if path not in OPEN_PATHS and (wait := self._host.rate.wait_s(passing.caller or client)):
            raise ApiError(429, "rate", "too many requests of this key", retry_s=wait)
        if path not in OPEN_PATHS:
            self._enter(passing.caller or client, passing)
        most = settings.limits.max_body_bytes
        if (length := headers.get("content-length", "0")).isdigit() and int(length) > most:
            raise too_large(most)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        bare = path in BARE_PATHS and not kind
        if scope["method"] == "POST" and kind != "application/json" and not bare:
            # Browsers send a preflight before a page of another site may post JSON.
            raise ApiError(415, "content_type", "the body has to be application/json")
        # Before the body is read, which costs a call to Ray's proxy.
        if path in QUEUED_PATHS and (wait := self._host.batcher.full_s(passing.counted)):
            raise busy(wait)
        if text := headers.get("x-timeout-s"):
            passing.deadline = passing.began + _seconds(text, settings.limits.timeout_s)

    def _capped(self, receive: Any, passing: RequestContext) -> Any:
        """Wrap `receive` so that it raises ApiError when the body exceeds the limit."""
        most, read = self._settings.limits.max_body_bytes, 0

        async def received() -> Any:
            nonlocal read
            message = await receive()
            passing.gone = message["type"] == "http.disconnect"
            read += len(message.get("body", b""))
            if read > most:
                passing.fault = too_large(most)
                raise passing.fault
            return message

        return received

    def _told(self, scope: Scope, headers: dict[str, str], passing: RequestContext) -> None:
        # Metrics and log have the route: every distinct value is a time series, and what stands in
        # its place may be what somebody typed. A request that was refused here has no route yet.
        came = scope["path"] if scope["path"] in QUEUED_PATHS else "-"
        path = getattr(scope.get("route"), "path", came)
        seconds = time.monotonic() - passing.began
        self._metrics.requests.labels(path, str(passing.status or 499)).inc()
        self._metrics.seconds.labels(path).observe(seconds)
        if code := passing.notes.get("code"):
            self._metrics.errors.labels(code).inc()
        self._log(
            event="request", request_id=passing.id, method=scope["method"], path=path,
            status=passing.status or 499, ms=round(1000 * seconds, 1), key=passing.caller or None,
            **passing.notes,
        )  # fmt: skip
        if self._traces is not None:
            told = {
                "http.request.method": scope["method"],
                "http.route": path,
                "http.response.status_code": passing.status or 499,
                "srrag.request_id": passing.id,
                **{f"srrag.{name}": passing.notes.get(name) for name in _TRACED},
            }
            name = f"{scope['method']} {path}"
            self._traces.request(name, seconds, headers, told, passing.steps)


def too_large(most: int) -> ApiError:
    """The error (413) for a body of more than `most` bytes."""
    return ApiError(413, "body_too_large", f"the body holds more than {most} bytes", "body")


def _key(headers: dict[str, str]) -> str:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


def _is_local(host: str) -> bool:
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    return is_loopback(name)


def _seconds(text: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= most:
        message = f"a number of seconds above 0, at most {most:g}, is needed"
        raise ApiError(400, "timeout", message, "X-Timeout-S")
    return value
