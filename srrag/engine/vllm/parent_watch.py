"""The processes that vLLM starts end with the one that started them, even if it is killed."""

from __future__ import annotations

import os
import select
import threading

_watched: set[int] = set()


class EndsWithParent(str):
    """A word in vLLM's configuration that, unpickled in another process, ties it to this one.

    vLLM's processes end when theirs closes them, but a process that is killed closes nothing;
    then they would hold the GPU for ever. Each of them gets the configuration by pickle as the
    first thing, before a model is loaded.
    """

    parent: int

    def __new__(cls, parent: int | None = None) -> EndsWithParent:
        """One word for every process: vLLM keys its compilation cache by the configuration."""
        word = super().__new__(cls, "ends with parent")
        word.parent = os.getpid() if parent is None else parent
        return word

    def __reduce__(self) -> tuple[object, ...]:
        """Unpickle by `tied`."""
        return tied, (self.parent,)


def tied(parent: int) -> EndsWithParent:
    """End this process at once when the parent ends, or is gone already; once a process."""
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
