"""What the threads of a CPU do: passes of a model side by side, each on one of torch's threads.

Of the products of one pass sixteen threads make a fifth of their speed, and where another process
has a core they wait for it, spinning: two then cost three times the CPU seconds of one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

_threads: list[int | None] = [None]


def use_threads(threads: int | None) -> None:
    """Set how many passes run at a time in this process; None leaves that, and torch, as it is."""
    if threads is not None:
        _threads[0] = threads
        if "torch" in sys.modules:
            one_thread()


def one_thread() -> None:
    """Give torch, which is imported by now, one thread for a product, if a number was set."""
    if _threads[0] is not None:
        import torch

        torch.set_num_threads(1)


@contextmanager
def all_threads() -> Iterator[None]:
    """Give torch's products all threads meanwhile: of models whose passes are few and large."""
    import torch

    torch.set_num_threads(_threads[0] or torch.get_num_threads())
    try:
        yield
    finally:
        one_thread()


def in_passes(
    passes: Sequence[np.ndarray], one: Callable[[np.ndarray], None], *, side_by_side: bool = True
) -> None:
    """Call `one` with the rows of each pass, on as many threads as were set."""
    workers = min(len(passes), (_threads[0] or 1) if side_by_side else 1)
    if workers > 1:
        with ThreadPoolExecutor(workers, initializer=one_thread) as pool:
            list(pool.map(one, passes))
    else:
        for rows in passes:
            one(rows)


def budgeted(lengths: Sequence[int] | np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Rows from the longest down, as many at a time as hold at most `budget` tokens (or one)."""
    sizes = np.asarray(lengths, np.int64)
    order = np.argsort(-sizes, kind="stable")
    start, used = 0, 0
    for stop, row in enumerate(order):
        if used and used + sizes[row] > budget:
            yield order[start:stop]
            start, used = stop, 0
        used += int(sizes[row])
    if start < len(order):
        yield order[start:]
