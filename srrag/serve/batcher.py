"""Continuous batching: a worker that becomes free takes everything that waits as one batch.

A timer that waits for more rows delays every request, and may close a batch before a worker is
free. Here the rows that arrived while the worker was busy form its next batch.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from srrag.serve.errors import busy, late, stopping

T = TypeVar("T")
R = TypeVar("R")

_MEMORY = 0.8
"""Weight of the former estimate in the moving average of seconds per ticket."""


@dataclass(eq=False)
class Ticket(Generic[T, R]):
    """One item in the queue or in a batch; tickets of one `kind` can share a batch."""

    kind: str
    item: T
    deadline: float
    future: asyncio.Future[R]

    def gone(self) -> bool:
        """Whether its caller has given up or its deadline has passed."""
        return self.future.done() or time.monotonic() >= self.deadline


Work = Callable[[str, Sequence[Ticket[T, R]]], Sequence[R | Exception]]
"""Processes tickets of one kind in a thread; returns a result or an error for each, in order."""


@dataclass
class Batcher(Generic[T, R]):
    """Hands batches to `workers` threads: the oldest ticket together with others of its kind.

    It belongs to the event loop that first submits. `max_rows` gives the largest batch of a kind.
    """

    work: Work[T, R]
    max_rows: Callable[[str], int]
    max_waiting: int
    workers: int = 1
    took: Callable[[int, float], None] = lambda rows, seconds: None
    """Observer called for each batch with its rows and the seconds that the oldest one waited."""

    ticket_s: float = 0.02
    """Moving average of the seconds per ticket: a batch's time divided by its tickets."""
    _waiting: deque[tuple[float, Ticket[T, R]]] = field(default_factory=deque)
    _in_hand: dict[int, float] = field(default_factory=dict)
    _closed: bool = False

    def __post_init__(self) -> None:
        """Create the pool, which starts threads only when there is work."""
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="pipeline")

    def submit(self, kind: str, item: T, deadline: float) -> Ticket[T, R]:
        """Queue an item; raises ApiError at once if the queue is full or the deadline is past."""
        if self._closed:
            raise stopping()
        if time.monotonic() >= deadline:
            raise late()
        if wait := self.full_s():
            raise busy(wait)
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        ticket = Ticket(kind, item, deadline, future)
        self._waiting.append((time.monotonic(), ticket))
        self._start()
        return ticket

    def full_s(self, coming: int = 0) -> float:
        """Estimated seconds until the queue has room, besides for `coming` items; 0 for now."""
        idle = self.workers - len(self._in_hand)
        places = self.max_waiting - max(0, coming - idle)
        if len(self._waiting) >= places:
            self._drop()
        return self.wait_s() if len(self._waiting) >= places else 0.0

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
        return time.monotonic() - min(self._in_hand.values(), default=time.monotonic())

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
        while self._waiting and len(self._in_hand) < self.workers:
            since, first = self._waiting[0]
            kind, most = first.kind, self.max_rows(first.kind)
            same = [ticket for _, ticket in self._waiting if ticket.kind == kind][:most]
            taken = set(map(id, same))
            self._waiting = deque(each for each in self._waiting if id(each[1]) not in taken)
            self.took(len(same), time.monotonic() - since)
            self._hand(kind, same)

    def _hand(self, kind: str, batch: list[Ticket[T, R]]) -> None:
        loop, number = asyncio.get_running_loop(), id(batch)
        self._in_hand[number] = time.monotonic()
        running = loop.run_in_executor(self._pool, self.work, kind, batch)

        def done(finished: asyncio.Future[Sequence[R | Exception]]) -> None:
            seconds = time.monotonic() - self._in_hand.pop(number)
            self.ticket_s = _MEMORY * self.ticket_s + (1 - _MEMORY) * seconds / len(batch)
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
