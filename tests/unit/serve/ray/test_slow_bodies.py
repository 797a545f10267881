"""Bodies that arrive slowly keep places only from each other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from srrag.serve.errors import ApiError
from srrag.serve.ray.retry_middleware import SLOW_S, SlowBodies


async def after(seconds: float, message: str = "here") -> str:
    await asyncio.sleep(seconds)
    return message


def run(scene: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(10):
            await scene()

    asyncio.run(main())


def test_a_message_in_time_is_passed_on_and_a_late_one_is_given_up() -> None:
    async def scene() -> None:
        bodies = SlowBodies(0.2, 4)
        now, ended = time.monotonic(), asyncio.Event()

        async def until_cancelled() -> None:
            try:
                await asyncio.sleep(9.0)
            finally:
                ended.set()

        with pytest.raises(ApiError):
            await bodies.message(until_cancelled, now - 0.1)
        await asyncio.wait_for(ended.wait(), 5)  # nobody goes on to listen
        now = time.monotonic()
        assert await bodies.message(lambda: after(0.0), now) == "here"
        with pytest.raises(ApiError) as late:
            await bodies.message(lambda: after(5.0), now)
        assert (late.value.status, late.value.field) == (408, "body")
        assert 0.15 < time.monotonic() - now < 2, "its time runs from its beginning"
        now = time.monotonic()
        with pytest.raises(ApiError):
            await bodies.message(lambda: after(5.0), now - 60)
        assert time.monotonic() - now < 0.8, "its time is over"
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
