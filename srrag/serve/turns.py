"""Whose turn it is: of the callers with a request in hand, the one who had it for least of late.

A caller's request slows another's on the same cores at every point of its way: in Ray's proxy, in
the event loop, in a step. So whose turn it is not pauses where it can: before its body is read,
before a step of a pipeline and before a slice of other work. Waiting for a model is no work: a
request that does so keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field

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
