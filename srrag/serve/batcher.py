"""Batches that close when a worker is free: what waits then becomes one table, and no one waits.

A timer that waits for more rows costs every request its wait, and closes the batch before the
worker can take it; here the rows that came while it worked are the next batch.
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
"""Share of the former estimate in the estimate of a ticket's seconds."""


@dataclass(eq=False)
class Ticket(Generic[T, R]):
    """One item that waits or is in hand; `kind` says what it can share a batch with."""

    kind: str
    item: T
    deadline: float
    future: asyncio.Future[R]

    def gone(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.future.done() or time.monotonic() >= self.deadline


Work = Callable[[str, Sequence[Ticket[T, R]]], Sequence[R | Exception]]
"""Works on tickets of one kind, in a thread: a result or an error for each, in order."""


@dataclass
class Batcher(Generic[T, R]):
    """Gives tickets to `workers` threads, the oldest first, with those of its kind beside it.

    Belongs to the event loop that first submits. `max_rows` bounds a batch, by its kind.
    """

    work: Work[T, R]
    max_rows: Callable[[str], int]
    max_waiting: int
    workers: int = 1
    took: Callable[[int, float], None] = lambda rows, seconds: None
    """Hears of each batch: its rows, and how long the oldest had waited."""

    ticket_s: float = 0.02
    """What a ticket took lately, as its share of a batch."""
    _waiting: deque[tuple[float, Ticket[T, R]]] = field(default_factory=deque)
    _in_hand: dict[int, float] = field(default_factory=dict)
    _closed: bool = False

    def __post_init__(self) -> None:
        """Start no thread before there is work."""
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="pipeline")

    def submit(self, kind: str, item: T, deadline: float) -> Ticket[T, R]:
        """Queue an item; raises RequestFault at once if there is no room, or no time left."""
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
        """About when there is room again, 0 if there is now, with so many on their way here."""
        idle = self.workers - len(self._in_hand)
        places = self.max_waiting - max(0, coming - idle)
        if len(self._waiting) >= places:
            self._drop()
        return self.wait_s() if len(self._waiting) >= places else 0.0

    async def result(self, ticket: Ticket[T, R]) -> R:
        """Wait for a ticket until its deadline; what has not begun by then never does."""
        try:
            async with asyncio.timeout(ticket.deadline - time.monotonic()):
                return await ticket.future
        except TimeoutError:
            raise late() from None
        finally:
            ticket.future.cancel()

    @property
    def waiting(self) -> int:
        """Tickets that no worker has taken."""
        return len(self._waiting)

    def busy_s(self) -> float:
        """How long the oldest batch has been in hand; 0 if there is none."""
        return time.monotonic() - min(self._in_hand.values(), default=time.monotonic())

    def wait_s(self) -> float:
        """About how long a new ticket would wait."""
        return self.ticket_s * (1 + len(self._waiting)) / self.workers

    async def close(self, drain_s: float) -> None:
        """Take no more; give what waits and is in hand this long."""
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
        """Leave out what nobody waits for any more."""
        self._waiting = deque(each for each in self._waiting if not each[1].gone())

    def _start(self) -> None:
        """Give batches to the workers that are free."""
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
    """Give each ticket its result, or all of them the error that ended their batch."""
    error = finished.exception()
    results = [error] * len(batch) if error is not None else finished.result()
    for ticket, result in zip(batch, results, strict=True):
        if ticket.future.done():
            continue
        if isinstance(result, BaseException):
            ticket.future.set_exception(result)
        else:
            ticket.future.set_result(result)
