"""Find the row at fault: halve the failing items until one is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from srrag.core.errors import Halt

T = TypeVar("T")


def isolated(
    run: Callable[[int, int], T], start: int, stop: int, fault: Callable[[int, Exception], T]
) -> list[T]:
    """Run items start … stop - 1 together; while that raises, run the halves by themselves.

    `run(start, stop)` returns one result for its items; `fault(item, error)` stands in for an item
    that fails alone. Returns the results in the order of the items. Raises a Halt as it comes, and
    any error of `run` for no items.
    """
    try:
        return [run(start, stop)]
    except Halt:
        raise
    except Exception as error:
        if start == stop:
            raise
        if stop - start == 1:
            return [fault(start, error)]
    middle = (start + stop) // 2
    return [*isolated(run, start, middle, fault), *isolated(run, middle, stop, fault)]
