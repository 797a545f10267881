"""One writer per root: a file lock, or on an object store an object with a heartbeat.

A store has neither links nor conditional puts that all kinds of it share. So a taker puts its own
name, lets as much time pass as a put may take, and looks again: of several, the last one holds.
What is written without the right is still not wrong, as parts are named by their content; only the
pointer could go back to that of the other run, so it is looked at once more before it is put.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from srrag.storage import mirror
from srrag.storage.process_identity import HOLDER, ProcessIdentity

FILE = ".lock"
SETTLE_S = 2.0
BEAT_S = 20.0
STALE_S = 120.0


@contextmanager
def writer_lock(root: Path) -> Iterator[None]:
    """Hold a root for one writer; raises ValueError that names who does. It ends with the process.

    On an object store whoever died on another machine is succeeded after STALE_S seconds.
    """
    with _file_lock(root):
        if mirror.store_at(root) is None:
            yield
            return
        with _StoreLock(root).held():
            yield


def check_held(root: Path) -> None:
    """Raise RuntimeError if this process had the right to write a root, and lost it."""
    if lock := _held.get(root):
        lock.check()


@contextmanager
def _file_lock(root: Path) -> Iterator[None]:
    with (root / FILE).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise ValueError(f"root={mirror.shown(root)} is being written by {holder}") from None
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


class _StoreLock:
    """The object that says who writes a root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / f"{FILE}.json"
        self.token = uuid.uuid4().hex
        self.me = ProcessIdentity.this()
        self._stop = threading.Event()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Take it, beat, and give it back."""
        found = self._read()
        if found and not found[0].is_gone():
            age_s = self._now() - mirror.fetch(self.path).stat().st_mtime
            if age_s < STALE_S:
                told = found[0].told(age_s)
                raise ValueError(f"root={mirror.shown(self.root)} is being written by {told}")
        self._write()
        beats = threading.Thread(target=self._beat, name="root-lock", daemon=True)
        try:
            time.sleep(SETTLE_S)
            self.check()
            beats.start()
            _held[self.root] = self
            yield
        finally:
            _held.pop(self.root, None)
            self._stop.set()
            if beats.is_alive():
                beats.join()
            with suppress(OSError, RuntimeError):  # it grows stale by itself
                self.check()
                mirror.remove(self.path)

    def check(self) -> None:
        """Raise RuntimeError if another run has taken it."""
        found = self._read()
        if found is None or found[1] != self.token:
            by = f"process {found[0].pid} on {found[0].host}" if found else "another run"
            raise RuntimeError(f"root={mirror.shown(self.root)} was taken over by {by}")

    def _beat(self) -> None:
        while not self._stop.wait(BEAT_S):
            try:
                self.check()
                self._write()
            except RuntimeError:
                return  # `check_held` tells
            except OSError:
                continue  # the store is away for a moment; beats may be missed

    def _write(self) -> None:
        self.path.write_text(json.dumps({**asdict(self.me), "token": self.token}), "utf-8")
        mirror.put(self.path)

    def _now(self) -> float:
        """The time by the store's clock: that of a probe put just now."""
        probe = self.path.with_name(f"{FILE}-{self.token}")
        probe.touch()
        mirror.put(probe)
        now = probe.stat().st_mtime
        mirror.remove(probe)
        return now

    def _read(self) -> tuple[ProcessIdentity, str] | None:
        """Who holds it, and its token: as the store has it, not a copy here."""
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
