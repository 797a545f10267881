"""Identifies the process that holds a lock, and tells whether it has ended."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import pydantic


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
