"""The circuit breaker of an endpoint: ends all calls with one clear error when it is gone."""

from __future__ import annotations

import asyncio
import time

from srrag.llm.completion import EngineStopped

FAILURES = 5
"""Failures in a row that open the circuit."""
GRACE_S = 3.0
"""Seconds for which a series of failures may be a restart, so the circuit stays closed."""


class CircuitBreaker:
    """Counts consecutive failures, and opens once: then every call ends with the same error.

    A failure is a call that failed after all its retries, or a refused connection. So the circuit
    detects a dead endpoint before any call has used up its retries.
    """

    def __init__(self, endpoint: str, limit: int, grace_s: float) -> None:
        """Bind the endpoint, the failures that open the circuit, and their least duration."""
        self._endpoint = endpoint
        self._limit = limit
        self._grace_s = grace_s
        self._failures = 0
        self._since = 0.0
        self._lived = 0.0
        self._opened = asyncio.Event()
        self._reason = ""

    def succeeded(self) -> None:
        """Note a sign of life, which ends a series of failures."""
        self._failures = 0
        self._lived = time.monotonic()

    def failed(self, error: str, started: float) -> bool:
        """Note a failure of a call begun at `started` (`time.monotonic`); True if it opens this."""
        if self._failures == 0:
            self._since = max(started, self._lived)
        self._failures += 1
        lasted = time.monotonic() - self._since
        if self._opened.is_set() or self._failures < self._limit or lasted < self._grace_s:
            return False
        self.open(f"gone: {self._failures} failures in a row in {lasted:.0f} s, last: {error}")
        return True

    def open(self, reason: str) -> None:
        """Open the circuit with a reason; if it is open already, keep the first reason."""
        if not self._opened.is_set():
            self._reason = f"endpoint {self._endpoint}: {reason}"
            self._opened.set()

    def check(self) -> None:
        """Raise EngineStopped with the reason if the circuit is open."""
        if self._opened.is_set():
            raise EngineStopped(self._reason)

    async def pause(self, seconds: float) -> None:
        """Sleep; raises EngineStopped as soon as the circuit opens."""
        try:
            await asyncio.wait_for(self._opened.wait(), seconds)
        except TimeoutError:
            return
        self.check()
