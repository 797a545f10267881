"""Requests that outlive their replica, by a proxy whose replicas die when they are told to."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import TaskCancelledError
from starlette.responses import PlainTextResponse, Response
from starlette.testclient import TestClient

from srrag.serve.api.app import create_app
from srrag.serve.errors import ApiError
from srrag.serve.ray import retry_middleware
from srrag.serve.ray.retry_middleware import (
    SLOW_S,
    TRIES,
    EndOnDisconnect,
    RetryOnReplicaDeath,
    SlowBodies,
)
from srrag.serve.service import PipelineService
from srrag.serve.settings import Limits
from tests.unit.serve.serving import CAST, settings


class Proxy:
    """As Ray's: ends without a response when the replica dies, and refuses in words of its own."""

    def __init__(
        self,
        deaths: int,
        refuses: int = 0,
        says_first: bool = False,
        dies_after_s: float = 0.0,
    ) -> None:
        self.deaths, self.refuses, self.says_first = deaths, refuses, says_first
        self.dies_after_s = dies_after_s
        self.bodies: list[bytes] = []
        self.headers: list[dict[bytes, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.bodies.append(body)
        self.headers.append(dict(scope["headers"]))
        if self.refuses:
            await PlainTextResponse("Ray's own words", self.refuses)(scope, receive, send)
        elif len(self.bodies) <= self.deaths:
            await asyncio.sleep(self.dies_after_s)
            if self.says_first:
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"half", "more_body": True})
                raise ConnectionResetError
        else:
            headers = {"x-content-type-options": "nosniff"}
            await Response(body, headers=headers)(scope, receive, send)


def post(proxy: Proxy, body: bytes = b"question", headers: dict[str, str] | None = None) -> Any:
    client = TestClient(RetryOnReplicaDeath(proxy, Limits()), raise_server_exceptions=False)
    return client.post("/v1/answers", content=body, headers=headers)


def test_a_request_is_asked_again_with_its_whole_body() -> None:
    for deaths in range(TRIES):
        proxy = Proxy(deaths)
        response = post(proxy)
        assert (response.status_code, response.text) == (200, "question")
        assert proxy.bodies == [b"question"] * (deaths + 1)


def test_one_that_kills_every_replica_ends() -> None:
    proxy = Proxy(100)
    response = post(proxy, headers={"x-request-id": "mine"})
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["request_id"]) == (503, "lost", "mine")
    assert response.headers["retry-after"] in ("1", "2")
    assert len(proxy.bodies) == TRIES


@pytest.mark.parametrize("status", [404, 429, 503])
def test_refusals_of_the_proxy_are_faults_like_others(status: int) -> None:
    proxy = Proxy(0, refuses=status)
    response = post(proxy)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "busy")
    assert response.headers["retry-after"] in ("1", "2") and len(proxy.bodies) == 1


def test_what_was_begun_or_is_long_is_not_asked_again() -> None:
    begun, long = Proxy(1, says_first=True), Proxy(1)
    post(begun)
    assert len(begun.bodies) == 1
    post(long, b"x" * (Limits().max_body_bytes + 1))
    assert len(long.bodies) == 1


def test_time_that_is_lost_counts() -> None:
    proxy = Proxy(1, dies_after_s=0.2)
    assert post(proxy, headers={"x-timeout-s": "100"}).status_code == 200
    first, second = (float(each[b"x-timeout-s"]) for each in proxy.headers)
    assert first <= 100 and 0 < second <= first - 0.199


@pytest.mark.parametrize(("asked", "status"), [(True, 200), (False, 499)])
def test_a_reader_who_leaves_is_no_failure(
    sample_root: Path, tmp_path: Path, asked: bool, status: int
) -> None:
    """Of a stream that has begun, or before the body came."""
    log = tmp_path / "log.jsonl"
    host = PipelineService(settings(sample_root, "pipeline=bm25", f"log={log}"))
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "method": "POST", "path": "/v1/answers/stream", "headers": headers,
        "query_string": b"", "client": ("127.0.0.1", 50000),
    }  # fmt: skip
    body = {"type": "http.request", "body": json.dumps({"question": CAST}).encode()}
    coming = iter([body] if asked else [])
    sent: list[Any] = []

    async def receive() -> Any:
        for message in coming:
            return message
        while asked and not sent:
            await asyncio.sleep(0)
        raise TaskCancelledError

    async def send(message: Any) -> None:
        sent.append(message)

    async def passed() -> None:
        async with host.running():
            await EndOnDisconnect(create_app(host))(scope, receive, send)

    asyncio.run(passed())
    (line,) = [json.loads(each) for each in log.read_text("utf-8").splitlines()]
    assert line["path"] == "/v1/answers/stream" and line["status"] == status
    assert "code" not in line and "error" not in line
    assert "srrag_errors_total{" not in host.metrics.text().decode()
    assert not any(b"event: final" in message.get("body", b"") for message in sent)


async def after(seconds: float, message: str = "here") -> str:
    await asyncio.sleep(seconds)
    return message


def run(scene: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(300):
            await scene()

    asyncio.run(main())


def test_a_message_in_time_is_passed_on_and_a_late_one_is_given_up() -> None:
    async def scene() -> None:
        bodies = SlowBodies(0.2, 4)
        now, ended = time.monotonic(), asyncio.Event()

        async def until_cancelled() -> None:
            try:
                await asyncio.sleep(600)
            finally:
                ended.set()

        with pytest.raises(ApiError):
            await bodies.message(until_cancelled, now - 0.1)
        await asyncio.wait_for(ended.wait(), 60)  # nobody goes on to listen
        now = time.monotonic()
        assert await SlowBodies(60.0, 4).message(lambda: after(0.0), now) == "here"
        with pytest.raises(ApiError) as late:
            await bodies.message(lambda: after(600), now)
        assert (late.value.status, late.value.field) == (408, "body")
        assert 0.15 < time.monotonic() - now < 60, "its time runs from its beginning"
        now = time.monotonic()
        with pytest.raises(ApiError):
            await bodies.message(lambda: after(600), now - 60)
        assert time.monotonic() - now < 60, "its time is over"
        assert bodies._arriving == {}

    run(scene)


def test_an_error_of_the_connection_goes_on() -> None:
    async def broken() -> str:
        raise ConnectionError("gone")

    async def scene() -> None:
        with pytest.raises(ConnectionError, match="gone"):
            await SlowBodies(1.0, 4).message(broken, time.monotonic())

    run(scene)


@pytest.mark.parametrize(
    ("ages", "cut"),
    [
        ([3.0, 5.0, 4.0, 0.0], 5.0),  # the oldest of three slow ones makes room for a fourth
        ([3.0, 0.0, 0.0, 0.0], None),  # bodies that have just begun take nobody's place
        ([3.0, 5.0, 0.0], None),  # two slow ones are allowed beside the new one
    ],
)
def test_one_slow_body_too_many_cuts_the_oldest_off(ages: list[float], cut: float | None) -> None:
    async def scene() -> None:
        bodies, now = SlowBodies(60.0, 3), time.monotonic()
        assert SLOW_S < 3
        waiting = {}
        for age in ages:
            waiting[age] = asyncio.create_task(bodies.message(lambda: after(0.1), now - age))
            await asyncio.sleep(0)
        last = asyncio.create_task(bodies.message(lambda: after(0.1), now))
        found = await asyncio.gather(*waiting.values(), last, return_exceptions=True)
        refused = [age for age, each in zip(waiting, found[:-1], strict=True) if each != "here"]
        assert all(each == "here" or isinstance(each, ApiError) for each in found)
        assert refused == ([] if cut is None else [cut]) and found[-1] == "here"

    run(scene)


Message = dict[str, Any]
LIMITS = Limits(body_s=2.0, slow_bodies=2, max_body_bytes=10)
GONE: Message = {"type": "http.disconnect"}


class App:
    """Answers 200, and remembers the messages of each request up to the end of its body."""

    def __init__(self) -> None:
        self.heard: list[list[Message]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        messages = [await receive()]
        while messages[-1].get("more_body"):
            messages.append(await receive())
        self.heard.append(messages)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def part(body: bytes, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def asked(app: App, messages: list[Message], *headers: tuple[bytes, bytes]) -> list[Message]:
    """What is answered to a request of these messages, after which nothing comes any more."""
    coming, sent = iter(messages), []

    async def receive() -> Message:
        for message in coming:
            return message
        await asyncio.sleep(60)
        return GONE

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "headers": list(headers)}
    asyncio.run(asyncio.wait_for(RetryOnReplicaDeath(app, LIMITS)(scope, receive, send), 120))
    return sent


SIZED = (b"Content-Length", b"8")
CHUNKED = (b"transfer-encoding", b"chunked")


@pytest.mark.parametrize("header", [SIZED, CHUNKED])
def test_a_body_is_passed_on_once_and_whole(header: tuple[bytes, bytes]) -> None:
    app = App()
    sent = asked(app, [part(b"half"), part(b""), part(b"more", more=False)], header)
    assert sent[0]["status"] == 200
    assert app.heard == [[part(b"halfmore", more=False)]]


def test_a_request_without_a_body_waits_for_nothing() -> None:
    for header in (b"content-length", b"0"), (b"accept", b"*/*"):
        app = App()
        asked(app, [part(b"", more=False)], header)
        assert app.heard == [[part(b"", more=False)]]


def test_half_a_body_is_answered_and_its_connection_closed() -> None:
    app = App()
    start, end = asked(app, [part(b"half")], SIZED, (b"x-request-id", b"mine"))
    assert start["status"] == 408 and app.heard == []
    assert (b"connection", b"close") in start["headers"]
    fault = json.loads(end["body"])["error"]
    assert (fault["code"], fault["request_id"]) == ("slow_body", "mine")


def test_nobody_is_answered_who_leaves_before_the_body_is_whole() -> None:
    app = App()
    assert asked(app, [part(b"half"), GONE], SIZED) == [] and app.heard == []


def test_a_body_too_long_is_left_to_the_app_to_refuse() -> None:
    app = App()
    asked(app, [part(b"12345678"), part(b"12345678"), part(b"end", more=False)], CHUNKED)
    assert app.heard == [[part(b"12345678" * 2), part(b"end", more=False)]]


def test_the_environment_of_a_node_tells_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(retry_middleware.BODIES, raising=False)
    assert retry_middleware.limits_told() == Limits()
    monkeypatch.setenv(retry_middleware.BODIES, retry_middleware.told(LIMITS))
    assert retry_middleware.limits_told() == LIMITS
    monkeypatch.setenv(retry_middleware.BODIES, '{"max_rows": 3}')
    with pytest.raises(ValueError, match="max_rows is no limit of bodies"):
        retry_middleware.limits_told()
