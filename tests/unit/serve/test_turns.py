from __future__ import annotations

import asyncio
import threading
import time

import pytest

from srrag.serve.batcher import _FADE_S, _QUANTUM_S, _REQUEST_S, Turns


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def turns(clock: Clock) -> Turns:
    return Turns(clock)


def test_the_turn_is_of_the_one_who_had_less_of_late(turns: Turns, clock: Clock) -> None:
    turns.enter("busy")
    clock.now += 1.0
    turns.enter("quiet")
    assert turns.first("quiet") and not turns.first("busy")
    turns.leave("quiet")
    assert turns.first("busy"), "who is alone in hand has the turn"
    turns.leave("busy")
    assert turns.first("anybody"), "and nobody's turn is everybody's"


def test_those_who_have_equal_much_take_turns_by_a_quantum(turns: Turns, clock: Clock) -> None:
    turns.enter("a")
    turns.enter("b")
    assert turns.first("a")
    clock.now += 0.8 * _QUANTUM_S
    assert turns.first("a"), "a turn is not given away at once"
    clock.now += 0.4 * _QUANTUM_S
    assert turns.first("b") and not turns.first("a")
    held = {"a": 0, "b": 0}
    for _ in range(1000):
        clock.now += 0.01
        held["a" if turns.first("a") else "b"] += 1
    assert held["a"] == pytest.approx(held["b"], rel=0.05)


def test_what_somebody_had_fades(turns: Turns, clock: Clock) -> None:
    turns.enter("a")
    clock.now += 2.0
    turns.leave("a")
    had = turns.spent("a")
    clock.now += _FADE_S
    assert turns.spent("a") == pytest.approx(had / 2.718281828)


def test_who_was_quiet_for_long_goes_first_for_less_than_the_fading(
    turns: Turns, clock: Clock
) -> None:
    turns.enter("old")
    clock.now += 1000.0
    turns.enter("new")
    came = clock.now
    while not turns.first("old"):
        clock.now += 0.01
    assert 1.0 < clock.now - came < _FADE_S


def test_a_request_costs_more_than_its_turn(turns: Turns) -> None:
    async def many() -> None:
        for _ in range(100):
            async with turns.request("busy", time.monotonic() + 99):
                pass

    asyncio.run(many())
    assert turns.spent("busy") == pytest.approx(100 * _REQUEST_S)


def test_who_waits_for_a_model_keeps_nobody_waiting(turns: Turns, clock: Clock) -> None:
    turns.enter("busy")
    clock.now += 1.0
    turns.enter("quiet")
    with turns.away("quiet"):
        assert turns.first("busy")
        clock.now += 1.0
    assert turns.first("quiet") and turns.spent("quiet") < 0.1


def test_a_batch_that_comes_back_after_its_request_ended_leaves_nothing_behind(
    turns: Turns,
) -> None:
    turns.enter("gone")
    with turns.away("gone"):
        turns.leave("gone")
    turns.enter("other")
    assert turns.first("other") and turns.first("other")
    turns.leave("other")
    assert not turns._in_hand


def test_a_request_begins_in_its_turn_or_at_its_deadline() -> None:
    turns, told = Turns(), list[str]()
    turns.enter("busy")
    turns._spent["busy"] = (600.0, turns.clock())

    async def busy(deadline: float) -> None:
        async with turns.request("busy", deadline):
            told.append("busy")

    async def scene() -> None:
        async with turns.request("quiet", time.monotonic() + 99):
            waits = asyncio.create_task(busy(time.monotonic() + 99))
            await asyncio.sleep(0.1)
            assert not told
            began = time.monotonic()
            await busy(began + 0.1)
            assert time.monotonic() >= began + 0.1
            told.append("quiet")
        await asyncio.wait_for(waits, 60)

    asyncio.run(scene())
    assert told == ["busy", "quiet", "busy"], "the second one's deadline was over"


def test_a_thread_waits_for_its_turn_while_it_is_wanted() -> None:
    turns, wanted, over = Turns(), threading.Event(), threading.Event()
    wanted.set()
    turns.enter("busy")
    turns._spent["busy"] = (60.0, turns.clock())
    turns.enter("quiet")

    def work() -> None:
        turns.wait("busy", wanted.is_set)
        over.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert not over.wait(0.1)
    turns.leave("quiet")
    assert over.wait(60)
    thread.join(60)
    turns.enter("quiet")
    over.clear()
    thread = threading.Thread(target=work)
    thread.start()
    assert not over.wait(0.1)
    wanted.clear()
    assert over.wait(60), "nobody wants it: it goes on to its end"
    thread.join(60)
