"""CPU time for tests of growth: the best of three runs, without the garbage collector."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def cpu_seconds(work: Callable[[], object]) -> float:
    """The least CPU seconds of three runs: other work on the machine can only slow a run down."""
    seconds = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            started = time.process_time()
            work()
            seconds.append(time.process_time() - started)
    finally:
        gc.enable()
    return min(seconds)
