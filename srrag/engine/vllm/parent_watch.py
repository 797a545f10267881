"""Ends the processes that vLLM starts when their parent ends, even if it is killed."""

from __future__ import annotations

import os
import select
import threading

_watched: set[int] = set()


class EndsWithParent(str):
    """A string in vLLM's configuration that ties each process that unpickles it to this one.

    vLLM's processes end when their parent closes them. A killed parent closes nothing, and they
    would occupy the GPU for ever. Each process unpickles the configuration before it loads a model.
    """

    parent: int

    def __new__(cls, parent: int | None = None) -> EndsWithParent:
        """Make the same string for every parent: it is part of vLLM's compilation cache key."""
        word = super().__new__(cls, "ends with parent")
        word.parent = os.getpid() if parent is None else parent
        return word

    def __reduce__(self) -> tuple[object, ...]:
        """Unpickle by calling `tied`."""
        return tied, (self.parent,)


def tied(parent: int) -> EndsWithParent:
    """Start a watch that ends this process as soon as the parent ends; one watch per parent."""
    if parent != os.getpid() and parent not in _watched:
        _watched.add(parent)
        try:
            process = os.pidfd_open(parent)
        except ProcessLookupError:
            os._exit(1)
        threading.Thread(target=_exit_after, args=(process,), daemon=True).start()
    return EndsWithParent(parent)


def _exit_after(process: int) -> None:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.poll()
    os._exit(1)
