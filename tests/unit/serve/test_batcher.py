from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence

import pytest

from srrag.serve.batcher import Batcher, Ticket, _deliver
from srrag.serve.errors import ApiError

FAR = 1e9


class Doubling:
    """Doubles numbers, a batch at a time, once it is let go."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, list[int]]] = []
        self.go = threading.Event()
        self.go.set()
        self.begun = threading.Event()
        self.over = threading.Event()

    def __call__(self, kind: str, batch: Sequence[Ticket[int, int]]) -> list[int | Exception]:
        self.batches.append((kind, [ticket.item for ticket in batch]))
        self.begun.set()
        gone_on = self.go.wait(60)
        self.over.set()
        assert gone_on
        if kind == "broken":
            raise ArithmeticError("no")
        return [ValueError("odd") if t.item == 13 else 2 * t.item for t in batch]


def run(work: Doubling, use: Callable[[Batcher[int, int]], Awaitable[None]], **more: int) -> None:
    async def main() -> None:
        limits = {"max_waiting": 100, "workers": 1, **more}
        batcher: Batcher[int, int] = Batcher(work, lambda kind: 4, **limits)
        async with asyncio.timeout(120):
            await use(batcher)
            work.go.set()
            await batcher.close(60.0)

    asyncio.run(main())


async def ask(batcher: Batcher[int, int], item: int, kind: str = "a", s: float = FAR) -> int:
    return await batcher.result(batcher.submit(kind, item, time.monotonic() + s))


async def held(work: Doubling, batcher: Batcher[int, int]) -> asyncio.Task[int]:
    """Occupy the worker with the number 0."""
    work.go.clear()
    first = asyncio.create_task(ask(batcher, 0))
    await asyncio.to_thread(work.begun.wait, 10)
    return first


def test_what_waits_when_the_worker_is_free_becomes_one_batch_of_its_kind() -> None:
    work = Doubling()

    async def use(batcher: Batcher[int, int]) -> None:
        first = await held(work, batcher)
        kinds = "aabaaba"
        rest = [asyncio.create_task(ask(batcher, n, kind)) for n, kind in enumerate(kinds, 1)]
        await asyncio.sleep(0)
        assert batcher.waiting == 7
        work.go.set()
        assert await asyncio.gather(first, *rest) == [2 * n for n in range(8)]

    run(work, use)
    assert work.batches == [("a", [0]), ("a", [1, 2, 4, 5]), ("b", [3, 6]), ("a", [7])]


def test_a_free_worker_takes_a_ticket_at_once() -> None:
    work = Doubling()

    async def use(batcher: Batcher[int, int]) -> None:
        assert [await ask(batcher, n) for n in range(3)] == [0, 2, 4]

    run(work, use)
    assert work.batches == [("a", [n]) for n in range(3)]


def test_several_workers_work_at_a_time() -> None:
    work = Doubling()

    async def use(batcher: Batcher[int, int]) -> None:
        first = await held(work, batcher)
        second = asyncio.create_task(ask(batcher, 1))
        while len(work.batches) < 2:
            await asyncio.sleep(0.01)
        work.go.set()
        assert await asyncio.gather(first, second) == [0, 2]

    run(work, use, workers=2)


def test_what_has_not_begun_by_its_deadline_never_does() -> None:
    work = Doubling()

    async def use(batcher: Batcher[int, int]) -> None:
        first = await held(work, batcher)
        with pytest.raises(ApiError) as caught:
            await ask(batcher, 1, s=0.05)
        assert (caught.value.status, caught.value.code) == (504, "deadline")
        second = asyncio.create_task(ask(batcher, 2))
        await asyncio.sleep(0)
        work.go.set()
        assert await asyncio.gather(first, second) == [0, 4]

    run(work, use)
    assert work.batches == [("a", [0]), ("a", [2])]


def test_who_goes_away_is_left_out() -> None:
    work = Doubling()

    async def use(batcher: Batcher[int, int]) -> None:
        await held(work, batcher)
        gone = asyncio.create_task(ask(batcher, 1))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone

    run(work, use)
    assert work.batches == [("a", [0])]


def test_a_full_queue_refuses_at_once_and_says_when_to_come_back() -> None:
    work = Doubling()

    async def use(batcher: Batcher[int, int]) -> None:
        first = await held(work, batcher)
        rest = [asyncio.create_task(ask(batcher, n)) for n in (1, 2)]
        await asyncio.sleep(0)
        with pytest.raises(ApiError) as caught:
            await asyncio.wait_for(ask(batcher, 3), 60)
        assert caught.value.status == 503
        assert int(caught.value.headers()["Retry-After"]) >= 1
        work.go.set()
        assert await asyncio.gather(first, *rest) == [0, 2, 4]

    run(work, use, max_waiting=2)


def test_an_expired_ticket_makes_room() -> None:
    work = Doubling()

    async def use(batcher: Batcher[int, int]) -> None:
        first = await held(work, batcher)
        with pytest.raises(ApiError):
            await ask(batcher, 1, s=0.02)
        second = asyncio.create_task(ask(batcher, 2))
        await asyncio.sleep(0)
        work.go.set()
        assert await asyncio.gather(first, second) == [0, 4]

    run(work, use, max_waiting=1)


def test_an_error_of_a_row_is_its_own_and_one_of_a_batch_that_of_all() -> None:
    work = Doubling()

    async def use(batcher: Batcher[int, int]) -> None:
        first = await held(work, batcher)
        rest = [
            asyncio.create_task(ask(batcher, n, kind))
            for n, kind in [(13, "a"), (4, "a"), (5, "broken"), (6, "broken")]
        ]
        await asyncio.sleep(0)
        work.go.set()
        assert await first == 0
        found = await asyncio.gather(*rest, return_exceptions=True)
        assert [type(each) for each in found] == [ValueError, int, ArithmeticError, ArithmeticError]
        assert await ask(batcher, 9) == 18, "and it goes on"

    run(work, use)


def test_closing_drains_and_then_refuses() -> None:
    work = Doubling()

    async def use(batcher: Batcher[int, int]) -> None:
        first = await held(work, batcher)
        second = asyncio.create_task(ask(batcher, 1))
        await asyncio.sleep(0)
        closing = asyncio.create_task(batcher.close(60.0))
        await asyncio.sleep(0)
        with pytest.raises(ApiError) as caught:
            await ask(batcher, 2)
        assert caught.value.code == "not_ready"
        work.go.set()
        await closing
        assert await asyncio.gather(first, second) == [0, 2]

    run(work, use)


def test_closing_ends_in_time_and_tells_those_that_wait() -> None:
    work = Doubling()

    async def use(batcher: Batcher[int, int]) -> None:
        await held(work, batcher)
        second = asyncio.create_task(ask(batcher, 1))
        await asyncio.sleep(0)
        assert batcher.busy_s() > 0
        await batcher.close(0.05)
        assert not work.over.is_set(), "what takes longer is not waited for"
        with pytest.raises(ApiError):
            await second

    run(work, use)


def test_the_wait_is_that_of_all_who_wait_by_what_each_took_lately() -> None:
    work = Doubling()

    async def use(batcher: Batcher[int, int]) -> None:
        first = await held(work, batcher)
        rest = [asyncio.create_task(ask(batcher, n)) for n in range(1, 5)]
        await asyncio.sleep(0)
        batcher.ticket_s = 0.1
        assert batcher.wait_s() == pytest.approx(0.5)
        assert batcher.full_s() == pytest.approx(0.5)
        batcher.workers = 2
        assert batcher.wait_s() == pytest.approx(0.25)
        batcher.workers, batcher.ticket_s = 1, 0.0
        began = time.monotonic()
        work.go.set()
        await first
        learnt = batcher.ticket_s
        await asyncio.gather(*rest)
        assert learnt > 0
        # Four shared the batch, and it counts for a fifth.
        share = batcher.ticket_s - 0.8 * learnt
        assert 0 < share <= (time.monotonic() - began) / (4 * 5)

    run(work, use, max_waiting=4)


def test_what_is_late_is_left_out_before_its_caller_notices() -> None:
    work = Doubling()

    async def use(batcher: Batcher[int, int]) -> None:
        first = await held(work, batcher)
        late = batcher.submit("a", 1, time.monotonic() + 0.2)
        second = asyncio.create_task(ask(batcher, 2))
        await asyncio.sleep(0.25)
        work.go.set()
        assert await asyncio.gather(first, second) == [0, 4]
        late.future.cancel()

    run(work, use)
    assert work.batches == [("a", [0]), ("a", [2])]


def test_busy_is_as_long_as_the_oldest_batch_runs() -> None:
    work = Doubling()

    async def use(batcher: Batcher[int, int]) -> None:
        assert batcher.busy_s() == pytest.approx(0.0, abs=0.01)
        first = await held(work, batcher)
        await asyncio.sleep(0.05)
        second = asyncio.create_task(ask(batcher, 1))
        await asyncio.sleep(0)
        assert batcher.busy_s() >= 0.05
        work.go.set()
        await asyncio.gather(first, second)

    run(work, use, workers=2)


def test_each_batch_is_told_with_its_rows_and_its_longest_wait() -> None:
    work, told = Doubling(), list[tuple[int, float]]()

    async def use(batcher: Batcher[int, int]) -> None:
        batcher.took = lambda rows, seconds: told.append((rows, seconds))
        first = await held(work, batcher)
        second = asyncio.create_task(ask(batcher, 1))
        await asyncio.sleep(0)  # it waits from now on
        await asyncio.sleep(0.03)
        third = asyncio.create_task(ask(batcher, 2))
        await asyncio.sleep(0)
        work.go.set()
        await asyncio.gather(first, second, third)

    run(work, use)
    assert [rows for rows, _ in told] == [1, 2]
    assert 0.03 <= told[1][1] < 60


def test_a_closed_batcher_leaves_no_thread_behind() -> None:
    kept: list[Batcher[int, int]] = []

    async def use(batcher: Batcher[int, int]) -> None:
        kept.append(batcher)
        assert await ask(batcher, 1) == 2

    run(Doubling(), use)
    (thread,) = kept[0]._pool._threads
    thread.join(60)
    assert not thread.is_alive()


def test_the_others_of_a_batch_get_their_results_when_one_has_gone() -> None:
    async def scene() -> list[int]:
        loop = asyncio.get_running_loop()
        tickets = [Ticket("a", n, FAR, loop.create_future()) for n in range(3)]
        tickets[0].future.cancel()
        finished: asyncio.Future[Sequence[int | Exception]] = loop.create_future()
        finished.set_result([0, 2, 4])
        _deliver(tickets, finished)
        return [ticket.future.result() for ticket in tickets[1:]]

    assert asyncio.run(scene()) == [2, 4]


def test_who_asks_much_waits_for_himself() -> None:
    work = Doubling()

    async def use(batcher: Batcher[int, int]) -> None:
        first = await held(work, batcher)
        many = [batcher.submit("a", n, FAR, "") for n in range(1, 7)]
        one = batcher.submit("b", 50, FAR, "quiet")
        while len(work.batches) < 2:
            await asyncio.sleep(0.01)
        assert work.batches[1:] == [("b", [50])], "a thread of its own, while the worker is busy"
        work.go.set()
        assert await batcher.result(one) == 100
        await asyncio.gather(first, *map(batcher.result, many))

    run(work, use)
    # Nothing is merged while another caller was heard of lately.
    assert work.batches[2:] == [("a", [n]) for n in range(1, 7)]


def test_of_several_who_wait_the_one_who_had_least_of_late_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Doubling()
    monkeypatch.setattr("srrag.serve.batcher._CALLERS", 0)

    async def use(batcher: Batcher[int, int]) -> None:
        first = await held(work, batcher)
        now = batcher.turns.clock()
        batcher.turns._spent = {"": (9.0, now), "y": (5.0, now)}
        tickets = [
            batcher.submit("a", n, FAR, caller) for n, caller in enumerate(["", "y", "y"], 1)
        ]
        work.go.set()
        await asyncio.gather(first, *map(batcher.result, tickets))

    run(work, use)
    assert [batch for _, (batch,) in work.batches] == [0, 2, 3, 1]


def test_no_key_takes_all_places_of_several() -> None:
    work = Doubling()

    async def use(batcher: Batcher[int, int]) -> None:
        work.go.clear()
        mine = [batcher.submit("a", n, FAR, "busy") for n in range(5)]
        with pytest.raises(ApiError):
            batcher.submit("a", 9, FAR, "busy")
        other = batcher.submit("a", 20, FAR, "quiet")
        while len(work.batches) < 3:
            await asyncio.sleep(0.01)
        work.go.set()
        assert await batcher.result(other) == 40
        await asyncio.gather(*map(batcher.result, mine))

    run(work, use, workers=2, shared=True, max_waiting=6)
    assert work.batches[2] == ("a", [20]), "both workers are busy, and it has a thread"
