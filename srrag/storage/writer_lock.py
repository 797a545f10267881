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
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from srrag.storage import mirror
from srrag.storage.process_identity import HOLDER, Heartbeat, ProcessIdentity, check_free

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
            check_free(f"root={mirror.shown(self.root)}", found[0], age_s, STALE_S)
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
