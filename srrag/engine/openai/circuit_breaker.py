"""The circuit breaker of an endpoint: one clear end instead of every call's own despair."""

from __future__ import annotations

import asyncio
import time

from srrag.llm.completion import EngineStopped

GRACE_S = 3.0
"""A row of failures shorter than this may be a restart: the circuit stays closed meanwhile."""


class CircuitBreaker:
    """Counts failures in a row, and opens once: then every call ends with the same one line.

    A failure is a call that failed after all its retries, or an attempt at a connection that
    nobody took; so an endpoint that is gone is known before any call has used up its retries.
    """

    def __init__(self, endpoint: str, limit: int, grace_s: float = GRACE_S) -> None:
        """Name the endpoint, the failures in a row that it may have, and their least duration."""
        self._endpoint = endpoint
        self._limit = limit
        self._grace_s = grace_s
        self._failures = 0
        self._since = 0.0
        self._lived = 0.0
        self._opened = asyncio.Event()
        self._reason = ""

    def succeeded(self) -> None:
        """Note a sign of life: the row of failures ends."""
        self._failures = 0
        self._lived = time.monotonic()

    def failed(self, error: str, started: float) -> bool:
        """Note a failure of what started then (`time.monotonic`); True if this one opens it."""
        if self._failures == 0:
            self._since = max(started, self._lived)
        self._failures += 1
        lasted = time.monotonic() - self._since
        if self._opened.is_set() or self._failures < self._limit or lasted < self._grace_s:
            return False
        self.open(f"gone: {self._failures} failures in a row in {lasted:.0f} s, last: {error}")
        return True

    def open(self, reason: str) -> None:
        """End it; the first reason stays."""
        if not self._opened.is_set():
            self._reason = f"endpoint {self._endpoint}: {reason}"
            self._opened.set()

    def check(self) -> None:
        """Raise EngineStopped with the reason if it has opened."""
        if self._opened.is_set():
            raise EngineStopped(self._reason)

    async def pause(self, seconds: float) -> None:
        """Sleep; raises EngineStopped as soon as it opens."""
        try:
            await asyncio.wait_for(self._opened.wait(), seconds)
        except TimeoutError:
            return
        self.check()
