"""Call a function on many items over Ray; builds distribute their pieces in this way.

Only items and return values travel; the data stays in the root, which all nodes see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import ray
from ray.exceptions import RayTaskError

from srrag.core.step import ParallelMap

MAX_RETRIES = 3
"""Retries of a task whose worker died; it writes the same files again."""


@contextmanager
def spread_over_ray(
    session: Callable[[], AbstractContextManager[None]], gpus: float = 0.0
) -> Iterator[ParallelMap]:
    """A parallel map that enters `session`, which keeps Ray running, at its first call."""
    with ExitStack() as entered:
        up: list[None] = []

        def spread(call: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
            if not up:
                up.append(entered.enter_context(session()))
            return over_ray(call, items, gpus)

        yield spread


def over_ray(call: Callable[[Any], Any], items: Sequence[Any], gpus: float = 0.0) -> list[Any]:
    """Return the values of a function on items, in order; each task takes one logical CPU.

    Raises the error of a task as the function raised it.
    """
    task: Any = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=MAX_RETRIES)(_called)
    try:
        values: list[Any] = ray.get([task.remote(call, item) for item in items])
    except RayTaskError as error:
        raise error.cause from None
    return values


def _called(call: Callable[[Any], Any], item: Any) -> Any:
    return call(item)
