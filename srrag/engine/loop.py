"""The event loop on which the engines of a process run, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from srrag.llm.completion import EngineStopped

T = TypeVar("T")


class EngineLoop:
    """An event loop on its own thread; `ended` is the error message of calls after the end."""

    def __init__(self, ended: str = "the run has ended") -> None:
        """Start the thread."""
        self._ended = ended
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engines", daemon=True)
        self._thread.start()
        self._closing = threading.Lock()
        self._closed = False

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop; raises EngineStopped once the loop is closed."""
        with self._closing:
            if self._closed:
                coroutine.close()
                raise EngineStopped(self._ended)
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait; raises EngineStopped once the loop is closed."""
        return self.submit(coroutine).result()

    def close(self) -> None:
        """Finish the running coroutines, so that no thread waits for them forever."""
        with self._closing:
            self._closed = True
        asyncio.run_coroutine_threadsafe(_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _others() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*rest, return_exceptions=True)
