"""What is refused before its body is read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from srrag.serve.api import gateway, slow_bodies
from srrag.serve.api.gateway import Gateway, _is_local, _key, _seconds
from srrag.serve.errors import ApiError
from srrag.serve.service import PipelineService
from tests.unit.serve.serving import settings

LAST = {"type": "http.request", "body": b"{}", "more_body": False}


async def reads(scope: Any, receive: Any, send: Any) -> None:
    """An app that answers once it has the body."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


class Caller:
    """Sends the head of a request at once, and the body when it is told to."""

    def __init__(self, app: Gateway) -> None:
        self.status = 0
        self._body: asyncio.Queue[Any] = asyncio.Queue()
        headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/v1/answers", "headers": headers}
        scope["client"] = ("127.0.0.1", 50000)
        self._task = asyncio.create_task(app(scope, self._body.get, self._sent))

    async def _sent(self, message: Any) -> None:
        self.status = message.get("status", self.status)

    async def now(self) -> int:
        """The status so far."""
        await asyncio.sleep(0.01)
        return self.status

    async def ended(self) -> int:
        """Send the body; the status."""
        self._body.put_nowait(LAST)
        await self._task
        return self.status


def test_a_body_on_its_way_has_its_place(
    sample_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Gateway(
        reads, PipelineService(settings(sample_root, "pipeline=bm25", "limits.max_waiting=2"))
    )

    async def asked() -> None:
        let_in = [Caller(app) for _ in range(3)]  # two that will wait, one for the idle worker
        assert await Caller(app).now() == 503
        assert await let_in[0].ended() == 200
        later = Caller(app)
        assert await later.now() == 0, "its place is free again"
        assert await Caller(app).now() == 503
        monkeypatch.setattr(gateway, "_READING_S", 0.0)
        assert await Caller(app).ended() == 200, "who sends slowly keeps nobody out"
        assert [await each.ended() for each in (*let_in[1:], later)] == [200] * 3

    asyncio.run(asked())


def test_a_body_that_does_not_come_in_time_is_given_up(sample_root: Path) -> None:
    told = settings(sample_root, "pipeline=bm25", "limits.body_s=0.05")
    app = Gateway(reads, PipelineService(told))

    async def asked() -> None:
        slow = Caller(app)
        assert await slow.now() == 0
        await asyncio.sleep(0.1)
        assert slow.status == 408
        assert await Caller(app).ended() == 200, "others are served"

    asyncio.run(asked())


def test_one_more_slow_body_cuts_the_oldest_off(
    sample_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_bodies, "SLOW_S", 0.0)
    told = settings(sample_root, "pipeline=bm25", "limits.slow_bodies=2")
    app = Gateway(reads, PipelineService(told))

    async def asked() -> None:
        callers = []
        for _ in range(3):
            callers.append(Caller(app))
            await callers[-1].now()
        assert [each.status for each in callers] == [408, 0, 0]
        assert [await each.ended() for each in callers[1:]] == [200, 200]

    asyncio.run(asked())


def test_a_caller_has_so_many_requests_at_once(sample_root: Path) -> None:
    told = settings(sample_root, "pipeline=bm25", "limits.per_caller=2")
    app = Gateway(reads, PipelineService(told))

    async def asked() -> None:
        first, second = Caller(app), Caller(app)
        assert await Caller(app).now() == 429
        assert await first.ended() == 200
        assert await Caller(app).ended() == 200, "a place is free again"
        assert await second.ended() == 200

    asyncio.run(asked())


def test_a_key_comes_as_a_bearer_or_in_its_own_header() -> None:
    assert _key({"authorization": "Bearer  one "}) == "one"
    assert _key({"authorization": "bearer one", "x-api-key": "two"}) == "one"
    assert _key({"authorization": "Basic one", "x-api-key": "two"}) == "two"
    assert _key({}) == ""


def test_a_deadline_is_above_0_and_at_most_the_limit() -> None:
    assert (_seconds("0.5", 60.0), _seconds("60", 60.0)) == (0.5, 60.0)
    for text in ("0", "-1", "60.5", "nan", "soon"):
        with pytest.raises(ApiError, match="above 0, at most 60") as caught:
            _seconds(text, 60.0)
        assert caught.value.status == 400


def test_a_host_is_local_with_and_without_a_port() -> None:
    hosts = ("localhost", "127.0.0.1:8000", "[::1]:80", "example.org", "example.org:80", "")
    assert [_is_local(host) for host in hosts] == [True, True, True, False, False, False]
