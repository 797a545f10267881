"""Bounds the requests whose bodies arrive slowly, so that they cannot fill a replica."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from srrag.serve.errors import ApiError

SLOW_S = 1.0
"""Seconds after which a body counts as slow."""


class SlowBodies:
    """Waits for the messages of bodies: each has `deadline_s`, and at most `most` may be slow.

    One more slow body cuts the oldest off, so that whoever sends bodies byte by byte keeps places
    only from others who do.
    """

    def __init__(self, deadline_s: float, most: int) -> None:
        """Set the limits; no body is arriving yet."""
        self._deadline_s, self._most = deadline_s, most
        self._arriving: dict[int, tuple[float, asyncio.Future[Any]]] = {}

    async def message(self, receive: Callable[[], Awaitable[Any]], began: float) -> Any:
        """The next message of a request that began at `began`; raises ApiError (408)."""
        now = time.monotonic()
        self._make_room(now)
        coming = asyncio.ensure_future(receive())
        self._arriving[id(coming)] = (began, coming)
        try:
            await asyncio.wait({coming}, timeout=max(0.0, began + self._deadline_s - now))
            if coming.done() and not coming.cancelled():
                return coming.result()
            raise ApiError(408, "slow_body", "the body did not arrive in time", "body")
        finally:
            del self._arriving[id(coming)]
            coming.cancel()

    def _make_room(self, now: float) -> None:
        slow = [each for each in self._arriving.values() if now - each[0] > SLOW_S]
        if len(slow) >= self._most:
            min(slow, key=lambda each: each[0])[1].cancel()
