"""The circuit of an endpoint opens once, for a row of failures that lasts."""

from __future__ import annotations

import asyncio
import time

import pytest

from srrag.engine.openai.session import CircuitBreaker
from srrag.llm.completion import EngineStopped


def test_it_opens_at_the_limit_with_one_line_and_keeps_the_first_reason() -> None:
    breaker = CircuitBreaker("http://e/v1", limit=3, grace_s=0.0)
    now = time.monotonic()
    assert [breaker.failed("refused", now) for _ in range(4)] == [False, False, True, False]
    breaker.open("later")
    with pytest.raises(EngineStopped, match=r"^endpoint http://e/v1: gone: 3 failures"):
        breaker.check()


def test_a_success_ends_the_row() -> None:
    breaker = CircuitBreaker("e", limit=2, grace_s=0.0)
    now = time.monotonic()
    breaker.failed("x", now)
    breaker.succeeded()
    assert not breaker.failed("x", now)
    breaker.check()
    assert breaker.failed("x", now)


def test_a_row_shorter_than_the_grace_is_a_restart() -> None:
    breaker = CircuitBreaker("e", limit=2, grace_s=30.0)
    assert not any(breaker.failed("x", time.monotonic()) for _ in range(100))
    breaker.check()


def test_a_row_does_not_begin_before_the_last_success() -> None:
    breaker = CircuitBreaker("e", limit=1, grace_s=30.0)
    breaker.succeeded()
    long_ago = time.monotonic() - 60
    assert not breaker.failed("x", long_ago)
    assert CircuitBreaker("e", limit=1, grace_s=30.0).failed("x", long_ago)


def test_a_pause_ends_as_soon_as_it_opens() -> None:
    async def scene() -> float:
        breaker = CircuitBreaker("e", limit=1, grace_s=3.0)
        await breaker.pause(0.01)
        asyncio.get_running_loop().call_later(0.05, breaker.open, "gone")
        started = time.monotonic()
        with pytest.raises(EngineStopped, match="endpoint e: gone"):
            await breaker.pause(60)
        return time.monotonic() - started

    assert asyncio.run(scene()) < 10
