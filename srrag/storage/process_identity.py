"""Identifies the process that holds a lock, and tells whether it has ended."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pydantic


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


@dataclass(frozen=True, kw_only=True)
class ProcessIdentity:
    """A process on a machine. `machine` distinguishes containers and hosts of the same name."""

    host: str
    machine: str
    pid: int
    started: str
    since: str
    released: bool = False

    @classmethod
    def this(cls) -> ProcessIdentity:
        """The identity of the calling process."""
        return cls(
            host=socket.gethostname(),
            machine=_machine(),
            pid=os.getpid(),
            started=_started(os.getpid()),
            since=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        )

    def is_gone(self) -> bool:
        """Whether the process has certainly ended; False for a live lock of another machine."""
        if self.released:
            return True
        return self.machine == _machine() and _started(self.pid) != self.started

    def told(self, age_s: float) -> str:
        """Describe the holder for people: process, host, start, and age of the last heartbeat."""
        return (
            f"process {self.pid} on {self.host} since {self.since} "
            f"(last sign of life {max(age_s, 0):.0f} s ago)"
        )


HOLDER = pydantic.TypeAdapter(ProcessIdentity)
"""Reads a holder from JSON; raises pydantic.ValidationError."""

_PROC = Path("/proc/self/stat")


def _machine() -> str:
    """Identify the machine, its boot and the process namespace in which pids are unique."""
    if not _PROC.exists():
        return socket.gethostname()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return f"{socket.gethostname()} {boot} {Path('/proc/self/ns/pid').readlink()}"


def _started(pid: int) -> str:
    """The start time of a process, in clock ticks since boot; "" if it has ended."""
    if not _PROC.exists():
        return _answers(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    fields = stat[stat.rindex(")") + 2 :].split()
    return "" if fields[0] in "ZX" else fields[19]


def _answers(pid: int) -> str:
    """A substitute for the start time on systems without /proc: "running", or "" if ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "running"
