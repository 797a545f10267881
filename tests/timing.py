"""CPU time for tests of growth: the best of some runs, without the garbage collector."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def cpu_seconds(work: Callable[[], object], runs: int = 3) -> float:
    """The least CPU seconds of the runs: other work on the machine can only slow a run down."""
    seconds = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(runs):
            started = time.process_time()
            work()
            seconds.append(time.process_time() - started)
    finally:
        gc.enable()
    return min(seconds)
