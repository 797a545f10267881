"""An endpoint that is gone ends the run with one line; one that stumbles ends nothing."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from srrag.engine.call import Reply, Session
from srrag.engine.openai import protocol, session
from srrag.llm.completion import EngineStopped
from tests.endpoint import Endpoint, serve
from tests.endpoint_process import started
from tests.unit.engine.asking import call, engine_at, replies, within


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back off by hundredths of a second."""
    monkeypatch.setattr(protocol, "BACKOFF_S", 0.02)
    monkeypatch.setattr(protocol, "MAX_BACKOFF_S", 0.1)


@pytest.mark.parametrize("kind", ["forbidden", "unknown_model", "moved", "quota"])
def test_what_would_fail_every_call_ends_the_run_at_once(kind: str) -> None:
    with serve(Endpoint(faults=f"{kind}@1-")) as endpoint, pytest.raises(EngineStopped) as caught:
        replies(engine_at(endpoint.url, concurrency=2), 50)
    assert endpoint.url in str(caught.value) and "\n" not in str(caught.value)
    assert endpoint.calls.total() <= 4


@pytest.mark.parametrize("kind", ["rate_limit", "busy"])
def test_an_endpoint_that_asks_to_wait_a_day_ends_the_run_at_once(kind: str) -> None:
    late = pytest.raises(EngineStopped, match=r"asks to wait 86400 s \(HTTP (429|503): ")
    with serve(Endpoint(faults=f"{kind}@1-", retry_after="86400")) as endpoint, late:
        replies(engine_at(endpoint.url, concurrency=2), 50)
    assert endpoint.calls.total() <= 4


def test_answers_on_their_way_are_kept_when_the_key_expires() -> None:
    async def scene(session: Session) -> list[Any]:
        slow = asyncio.ensure_future(session.complete(call(1)))
        await asyncio.sleep(0.1)
        return await asyncio.gather(slow, session.complete(call(2)), return_exceptions=True)

    with serve(Endpoint(faults="forbidden@2", latency_s=0.5)) as endpoint:
        first, second = within(engine_at(endpoint.url), scene)
    assert isinstance(first, Reply) and first.fault is None
    assert isinstance(second, EngineStopped)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("num", [1, 64])
def test_an_endpoint_that_is_not_there_ends_the_run_soon(
    num: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "GRACE_S", 0.1)
    url = f"http://127.0.0.1:{closed_port()}/v1"
    begun = time.monotonic()
    with pytest.raises(EngineStopped) as caught:
        replies(engine_at(url), num)
    assert time.monotonic() - begun < 5
    assert url in str(caught.value) and "Connection refused" in str(caught.value)
    assert "failures in a row" in str(caught.value) and "\n" not in str(caught.value)


def test_an_endpoint_that_dies_ends_every_call_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "GRACE_S", 1.0)

    async def scene(session: Session) -> list[Any]:
        tasks = [asyncio.ensure_future(session.complete(call(n))) for n in range(64)]
        await asyncio.sleep(0.5)
        process.kill()
        return await asyncio.gather(*tasks, return_exceptions=True)

    begun = time.monotonic()
    with started(tmp_path, "--latency", "30") as (process, url):
        results = within(engine_at(url, timeout_s=60.0), scene)
    assert time.monotonic() - begun < 20
    assert len({str(result) for result in results}) == 1
    assert all(isinstance(result, EngineStopped) for result in results)


def test_an_endpoint_that_hangs_frees_the_calls_that_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "GRACE_S", 0.0)

    async def scene(session: Session) -> list[Any]:
        waiting = [asyncio.ensure_future(session.complete(call(n))) for n in range(4)]
        await asyncio.sleep(0.3)
        failing = [session.complete(call(n)) for n in range(10, 20)]
        return await asyncio.gather(*waiting, *failing, return_exceptions=True)

    begun = time.monotonic()
    with serve(Endpoint(faults="stall@1-4,error@5-")) as endpoint:
        engine = engine_at(endpoint.url, timeout_s=60.0, max_retries=1)
        results = within(engine, scene)
    assert time.monotonic() - begun < 15
    assert all(isinstance(result, EngineStopped) for result in results[:4])


def test_a_short_outage_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MAX_BACKOFF_S", 0.5)
    monkeypatch.setattr(session, "GRACE_S", 20.0)
    port = closed_port()

    async def scene(session: Session) -> list[Reply]:
        tasks = [asyncio.ensure_future(session.complete(call(n))) for n in range(16)]
        await asyncio.sleep(0.7)
        async with Endpoint().listening(port):
            return await asyncio.gather(*tasks)

    engine = engine_at(f"http://127.0.0.1:{port}/v1", max_retries=1)
    assert all(r.fault is None and r.retries for r in within(engine, scene))
