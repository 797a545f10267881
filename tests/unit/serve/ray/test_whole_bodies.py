"""Bodies that Ray's proxy reads before anybody hears of their requests."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from srrag.serve.ray import retry_middleware
from srrag.serve.ray.retry_middleware import RetryOnReplicaDeath
from srrag.serve.settings import Limits

Message = dict[str, Any]
LIMITS = Limits(body_s=0.3, slow_bodies=2, max_body_bytes=10)
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
    asyncio.run(asyncio.wait_for(RetryOnReplicaDeath(app, LIMITS)(scope, receive, send), 20))
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
