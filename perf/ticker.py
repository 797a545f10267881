"""Do something every few seconds beside what is measured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def every(seconds: float, look: Callable[[], None]) -> Iterator[None]:
    """Call `look` every `seconds` in a thread, until the block ends."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(seconds):
            look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
