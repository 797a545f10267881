"""One writer per root: a file lock, or on an object store a lease object with a heartbeat.

Object stores share neither links nor conditional puts. So a process puts its own name, waits as
long as a put may take, and reads it again: of several processes, the last one holds the lease.
Writes by a process that lost the lease are harmless, since parts are named by their content. Only
the pointer could revert to the other run's, so the lease is checked again before it is put.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import pydantic

from srrag.storage import mirror


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


@dataclass(frozen=True, kw_only=True)
class ProcessIdentity:
    """A process on a machine. `machine` distinguishes containers and hosts of the same name."""

    host: str
    machine: str
    pid: int
    started: str
    since: str

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
        return self.machine == _machine() and _started(self.pid) != self.started

    def check_ended(self, what: str, age_s: float) -> None:
        """Raise ValueError that names the holder of `what`, unless it has ended.

        `age_s` is the age of its last heartbeat; from STALE_S on, one on another machine counts as
        ended.
        """
        if not self.is_gone() and age_s < STALE_S:
            holder = f"process {self.pid} on {self.host} since {self.since}"
            seen = f"last sign of life {max(age_s, 0):.0f} s ago"
            raise ValueError(f"{what} is being written by {holder} ({seen})")


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


FILE = ".lock"
SETTLE_S = 2.0
BEAT_S = 20.0
STALE_S = 120.0


@contextmanager
def writer_lock(root: Path) -> Iterator[None]:
    """Lock a root for one writer, at most until the process ends.

    Raises ValueError that names the present holder. On an object store, the lease of a process
    that died on another machine expires after STALE_S seconds.
    """
    with file_lock(root, "root"):
        if mirror.store_at(root) is None:
            yield
            return
        with _StoreLock(root).held():
            yield


def check_held(root: Path) -> None:
    """Raise RuntimeError if this process held the lease of a root and has lost it."""
    if lock := _held.get(root):
        lock.check()


@contextmanager
def file_lock(folder: Path, key: str) -> Iterator[None]:
    """Lock a folder for one process, at most until it ends; `key` is that of the configuration.

    Raises ValueError that names the present holder.
    """
    with (folder / FILE).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            where = f"{key}={mirror.shown(folder)}"
            raise ValueError(f"{where} is being written by {holder}") from None
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


class _StoreLock:
    """The lease of a root on an object store: an object that names the writer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / f"{FILE}.json"
        self.token = uuid.uuid4().hex
        self.me = ProcessIdentity.this()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lease during the block, with heartbeats from a thread.

        Raises ValueError if another process holds it.
        """
        found = self._read()
        if found and not found[0].is_gone():
            age_s = self._now() - mirror.fetch(self.path).stat().st_mtime
            found[0].check_ended(f"root={mirror.shown(self.root)}", age_s)
        self._write()
        beats: Heartbeat | None = None
        try:
            time.sleep(SETTLE_S)
            self.check()
            beats = Heartbeat("root-lock", BEAT_S, self._renew)
            _held[self.root] = self
            yield
        finally:
            _held.pop(self.root, None)
            if beats is not None:
                beats.stop()
            with suppress(OSError, RuntimeError):  # otherwise the lease expires
                self.check()
                mirror.remove(self.path)

    def check(self) -> None:
        """Raise RuntimeError if another run has taken the lease."""
        found = self._read()
        if found is None or found[1] != self.token:
            by = f"process {found[0].pid} on {found[0].host}" if found else "another run"
            raise RuntimeError(f"root={mirror.shown(self.root)} was taken over by {by}")

    def _renew(self) -> bool:
        try:
            self.check()
        except RuntimeError:
            return False  # as `check_held` will report
        self._write()
        return True

    def _write(self) -> None:
        self.path.write_text(json.dumps({**asdict(self.me), "token": self.token}), "utf-8")
        mirror.put(self.path)

    def _now(self) -> float:
        """The current time of the store's clock, taken from a probe object."""
        probe = self.path.with_name(f"{FILE}-{self.token}")
        probe.touch()
        mirror.put(probe)
        now = probe.stat().st_mtime
        mirror.remove(probe)
        return now

    def _read(self) -> tuple[ProcessIdentity, str] | None:
        """Read the holder and its token from the store; None without lease. Raises ValueError."""
        try:
            stated = json.loads(mirror.read(self.path))
            token = str(stated.pop("token"))
            return HOLDER.validate_json(json.dumps(stated), strict=True), token
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, AttributeError):
            raise ValueError(
                f"{mirror.shown(self.path)} is damaged; delete it if no run writes the root"
            ) from None


_held: dict[Path, _StoreLock] = {}
