"""What all leases share: a heartbeat, and the refusal while another process holds the lease."""

from __future__ import annotations

import threading
from collections.abc import Callable

from srrag.storage.process_identity import ProcessIdentity


class Heartbeat:
    """Renews a lease from a thread every `every_s` seconds, until it is stopped or lost.

    `renew` returns False once another process holds the lease. It may raise OSError while the
    store is briefly unreachable, since a missed heartbeat is harmless.
    """

    def __init__(self, name: str, every_s: float, renew: Callable[[], bool]) -> None:
        """Start the thread."""
        self._every_s, self._renew = every_s, renew
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; no heartbeat comes after this."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                if not self._renew():
                    return
            except OSError:
                continue


def check_free(what: str, holder: ProcessIdentity, age_s: float, stale_s: float) -> None:
    """Raise ValueError that names the holder, unless its process or its heartbeat has ended.

    `age_s` is the age of the last heartbeat; from `stale_s` on, a holder on another machine counts
    as ended.
    """
    if not holder.is_gone() and age_s < stale_s:
        raise ValueError(f"{what} is being written by {holder.told(age_s)}")
