"""How many processors this process may use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def usable_cpus(quota: Path = _QUOTA) -> int:
    """The processors of this process, at least 1: the least of affinity, quota and OMP_NUM_THREADS.

    A container with 2 of a machine's 64 processors has 2; threads beyond them only wait.
    """
    affine = hasattr(os, "sched_getaffinity")  # Linux alone has it
    counts = [len(os.sched_getaffinity(0)) if affine else os.cpu_count() or 1]
    with suppress(OSError, ValueError):
        granted, period = quota.read_text("ascii").split()[:2]  # "200000 100000", or "max 100000"
        counts.append(int(granted) // int(period))
    with suppress(KeyError, ValueError):
        counts.append(int(os.environ["OMP_NUM_THREADS"]))
    return max(1, min(counts))
