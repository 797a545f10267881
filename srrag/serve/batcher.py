"""Continuous batching in turns: a worker that becomes free takes what waits as one batch.

A timer that waits for more rows delays every request, and may close a batch before a worker is
free. Here the rows that arrived while the worker was busy form its next batch. Of several callers,
who had least of late goes first, and none waits for a thread that works for another.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from srrag.serve.errors import busy, late, stopping

_FADE_S = 5.0
"""Time constant with which the seconds of a caller's turns are forgotten: who came back from a
pause goes first for less than that."""
_REQUEST_S = 0.005
"""Seconds that a request costs before and after its turn, in Ray's proxy and on its way."""
_QUANTUM_S = 0.05
"""Seconds of turns by which one caller may be ahead of another before the turn changes."""

Sleeper = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


@dataclass
class Turns:
    """Gives the turn to one caller at a time; callers pause by themselves. Threads can share it."""

    clock: Callable[[], float] = time.monotonic
    _in_hand: Counter[str] = field(default_factory=Counter)
    _spent: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Seconds of the turns of each caller, and when they were noted: they fade from then on."""
    _turn: str | None = None
    _since: float = 0.0
    """Up to when the turn has been counted."""
    _asleep: dict[str, list[Sleeper]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Prepare the lock."""
        self._changed = threading.Condition()

    def enter(self, caller: str) -> None:
        """A request of a caller has come."""
        with self._changed:
            self._count(caller, 1)

    def leave(self, caller: str) -> None:
        """A request of a caller has ended."""
        with self._changed:
            self._count(caller, -1)

    @contextmanager
    def away(self, caller: str) -> Iterator[None]:
        """While a request waits for somebody else, such as a model, and keeps nobody waiting."""
        self.leave(caller)
        try:
            yield
        finally:
            self.enter(caller)

    def spent(self, caller: str) -> float:
        """Seconds of a caller's turns of late."""
        with self._changed:
            return self._faded(caller, self.clock())

    def first(self, caller: str) -> bool:
        """Whether it is this caller's turn, or nobody's."""
        with self._changed:
            self._settle()
            return self._turn in (caller, None)

    @asynccontextmanager
    async def request(self, caller: str, deadline: float) -> AsyncIterator[None]:
        """A request of a caller, begun in its turn, or at its deadline on the monotonic clock."""
        with self._changed:
            now = self.clock()
            self._spent[caller] = (self._faded(caller, now) + _REQUEST_S, now)
            self._count(caller, 1)
        try:
            await self._come(caller, deadline)
            yield
        finally:
            self.leave(caller)

    async def _come(self, caller: str, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        while not self.first(caller) and (left := deadline - time.monotonic()) > 0:
            future = loop.create_future()
            with self._changed:
                self._asleep.setdefault(caller, []).append((loop, future))
            await asyncio.wait([future], timeout=min(left, _QUANTUM_S))

    def wait(self, caller: str, wanted: Callable[[], bool] = lambda: True) -> None:
        """Wait, in a thread, for a caller's turn while its work is wanted."""
        while not self.first(caller) and wanted():
            with self._changed:
                self._changed.wait(_QUANTUM_S)

    def _count(self, caller: str, requests: int) -> None:
        """Add to the requests in hand; a batch may come back after its request has ended."""
        self._in_hand[caller] += requests
        if not self._in_hand[caller]:
            del self._in_hand[caller]
        self._settle()

    def _faded(self, caller: str, now: float) -> float:
        seconds, at = self._spent.get(caller, (0.0, now))
        return seconds * math.exp((at - now) / _FADE_S)

    def _settle(self) -> None:
        """Count the turn up to now, then give it to who is due."""
        now = self.clock()
        if self._turn is not None:
            had = _FADE_S * (1 - math.exp((self._since - now) / _FADE_S))
            spent = self._faded(self._turn, now) + had
            self._spent[self._turn] = (spent, now)
        self._since = now
        here = [caller for caller, requests in self._in_hand.items() if requests > 0]
        if not here:
            self._turn = None
            return
        due = min(here, key=lambda caller: self._faded(caller, now))
        held = self._turn
        if held in here and self._faded(str(held), now) <= self._faded(due, now) + _QUANTUM_S:
            return
        self._turn = due
        self._spent = {c: each for c, each in self._spent.items() if self._faded(c, now) > 1e-3}
        self._changed.notify_all()
        for loop, future in self._asleep.pop(due, ()):
            with suppress(RuntimeError):  # the loop has ended, so nobody waits there
                loop.call_soon_threadsafe(_wake, future)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


T = TypeVar("T")
R = TypeVar("R")

_MEMORY = 0.8
"""Weight of the former estimate in the moving average of seconds per ticket."""


_CALLERS = 16
"""Callers who get a thread at once, however many work for others."""

_LATELY_S = 60.0
"""For so long after a caller came, others' batches are short enough for it to come again."""


@dataclass(eq=False)
class Ticket(Generic[T, R]):
    """One item in the queue or in a batch; tickets of one `kind` can share a batch."""

    kind: str
    item: T
    deadline: float
    future: asyncio.Future[R]
    caller: str = ""

    def gone(self) -> bool:
        """Whether its caller has given up or its deadline has passed."""
        return self.future.done() or time.monotonic() >= self.deadline


Work = Callable[[str, Sequence[Ticket[T, R]]], Sequence[R | Exception]]
"""Processes tickets of one kind in a thread; returns a result or an error for each, in order."""


@dataclass
class Batcher(Generic[T, R]):
    """Hands batches to `workers` threads, and to one more of each caller for whom none works.

    A batch holds one ticket, or where its caller alone was heard of lately as many of one kind as
    `max_rows` gives for it. It belongs to the event loop that first submits. With `shared`, no
    caller fills more than half of the queue.
    """

    work: Work[T, R]
    max_rows: Callable[[str], int]
    max_waiting: int
    workers: int = 1
    shared: bool = False
    turns: Turns = field(default_factory=Turns)
    took: Callable[[int, float], None] = lambda rows, seconds: None
    """Observer called for each batch with its rows and the seconds that the oldest one waited."""

    ticket_s: float = 0.02
    """Moving average of the seconds per ticket: a batch's time divided by its tickets."""
    _waiting: deque[tuple[float, Ticket[T, R]]] = field(default_factory=deque)
    _in_hand: dict[int, tuple[float, list[Ticket[T, R]]]] = field(default_factory=dict)
    _heard: dict[str, float] = field(default_factory=dict)
    """When each caller of late last came."""
    _closed: bool = False

    def __post_init__(self) -> None:
        """Create the pool, which starts threads only when there is work."""
        self._pool = ThreadPoolExecutor(self.workers + _CALLERS, thread_name_prefix="pipeline")

    def submit(self, kind: str, item: T, deadline: float, caller: str = "") -> Ticket[T, R]:
        """Queue an item; raises ApiError at once if the queue is full or the deadline is past."""
        if self._closed:
            raise stopping()
        if time.monotonic() >= deadline:
            raise late()
        if wait := self.full_s(caller):
            raise busy(wait)
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        ticket = Ticket(kind, item, deadline, future, caller)
        now = time.monotonic()
        self._heard = {c: at for c, at in self._heard.items() if now - at < _LATELY_S}
        self._heard[caller] = now
        self._waiting.append((now, ticket))
        self._start()
        return ticket

    def full_s(self, caller: str = "") -> float:
        """Estimated seconds until the queue has room for a caller; 0 if it has."""
        if self._full(caller):
            self._drop()
        return self.wait_s() if self._full(caller) else 0.0

    def _full(self, caller: str) -> bool:
        own, most = sum(ticket.caller == caller for _, ticket in self._waiting), self.max_waiting
        return len(self._waiting) >= most or (self.shared and own >= (most + 1) // 2)

    async def result(self, ticket: Ticket[T, R]) -> R:
        """Wait for a ticket's result; raises ApiError at its deadline and drops it if not begun."""
        try:
            async with asyncio.timeout(ticket.deadline - time.monotonic()):
                return await ticket.future
        except TimeoutError:
            raise late() from None
        finally:
            ticket.future.cancel()

    @property
    def waiting(self) -> int:
        """Number of queued tickets that no worker has taken."""
        return len(self._waiting)

    def busy_s(self) -> float:
        """Seconds for which the oldest running batch has run; 0 if none runs."""
        now = time.monotonic()
        return now - min((since for since, _ in self._in_hand.values()), default=now)

    def wait_s(self) -> float:
        """Estimated seconds that a new ticket would wait."""
        return self.ticket_s * (1 + len(self._waiting)) / self.workers

    async def close(self, drain_s: float) -> None:
        """Refuse new tickets, and give queued and running ones `drain_s` seconds to finish."""
        self._closed = True
        until = time.monotonic() + drain_s
        while (self._waiting or self._in_hand) and time.monotonic() < until:
            await asyncio.sleep(0.02)
        for _, ticket in self._waiting:
            if not ticket.future.done():
                ticket.future.set_exception(stopping())
        self._waiting.clear()
        self._pool.shutdown(wait=False)

    def _drop(self) -> None:
        """Drop tickets whose callers have given up or whose deadlines have passed."""
        self._waiting = deque(each for each in self._waiting if not each[1].gone())

    def _start(self) -> None:
        """Hand batches to the free workers."""
        self._drop()
        while batch := self._next():
            taken = set(map(id, batch))
            since = min(at for at, each in self._waiting if id(each) in taken)
            self._waiting = deque(each for each in self._waiting if id(each[1]) not in taken)
            self.took(len(batch), time.monotonic() - since)
            self._hand(batch[0].kind, batch)

    def _next(self) -> list[Ticket[T, R]]:
        """The tickets of the next batch, its first one of the caller who had least of late."""
        held = Counter(batch[0].caller for _, batch in self._in_hand.values())
        if sum(held.values()) >= self.workers + _CALLERS:
            return []
        free = sum(held.values()) < self.workers
        may = [ticket for _, ticket in self._waiting if free or not held[ticket.caller]]
        if not may:
            return []
        spent = {caller: self.turns.spent(caller) for caller in {each.caller for each in may}}
        first = min(may, key=lambda ticket: spent[ticket.caller])  # of equals the oldest
        if len(self._heard) > 1:
            return [first]
        same = [each for each in may if (each.kind, each.caller) == (first.kind, first.caller)]
        return same[: self.max_rows(first.kind)]

    def _hand(self, kind: str, batch: list[Ticket[T, R]]) -> None:
        loop, number = asyncio.get_running_loop(), id(batch)
        self._in_hand[number] = time.monotonic(), batch
        running = loop.run_in_executor(self._pool, self.work, kind, batch)

        def done(finished: asyncio.Future[Sequence[R | Exception]]) -> None:
            seconds = (time.monotonic() - self._in_hand.pop(number)[0]) / len(batch)
            self.ticket_s = _MEMORY * self.ticket_s + (1 - _MEMORY) * seconds
            _deliver(batch, finished)
            self._start()

        running.add_done_callback(done)


def _deliver(
    batch: Sequence[Ticket[T, R]], finished: asyncio.Future[Sequence[R | Exception]]
) -> None:
    """Give each ticket its result, or give all of them the error that ended their batch."""
    error = finished.exception()
    results = [error] * len(batch) if error is not None else finished.result()
    for ticket, result in zip(batch, results, strict=True):
        if ticket.future.done():
            continue
        if isinstance(result, BaseException):
            ticket.future.set_exception(result)
        else:
            ticket.future.set_result(result)
