"""Watch a run on Ray: report progress, stop a run that stalls, and end one without a head."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray

from srrag.core.errors import SrragError
from srrag.core.stage import Plan, Stage
from srrag.runner.engines import Figures
from srrag.runner.part import note_name
from srrag.runner.progress import CallProgress, Progress, say
from srrag.runner.ray.loopback import forget_folder
from srrag.storage.store import Store


class StalledError(SrragError, RuntimeError):
    """Nothing moved for too long; the message names the stage and what it waits for."""


class Watch:
    """Counts and reports finished parts by stage, and calls; raises when nothing moves."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        stages: Sequence[Stage],
        parts: Sequence[str],
        stall_s: float,
        figures: Callable[[], Figures] = dict,
    ) -> None:
        """Count those of the run's parts that are finished; `figures` are the engines' figures."""
        self.store = store
        self.figures = figures
        self.calls = CallProgress(figures)
        self.answered = 0
        self.stall_s = stall_s
        # The folder of a stage holds the parts of other runs, too.
        self.parts = frozenset(parts)
        self.total = len(self.parts)
        self.notes = frozenset(map(note_name, self.parts))
        self.fingerprints = {stage.name: plan.fingerprint(stage.name) for stage in stages}
        self.counts = self._count()
        self.progress = {
            name: Progress(name, self.total, already=count) for name, count in self.counts.items()
        }
        self.passed = self._passes()
        self.moved = time.monotonic()
        self.warned = False

    def _count(self) -> dict[str, int]:
        return {
            name: len(self.parts & self.store.parts(name, fingerprint))
            for name, fingerprint in self.fingerprints.items()
        }

    def look(self) -> None:
        """Compare with the last look; raises StalledError after `stall_s` without change."""
        counts = self._count()
        if counts != self.counts:
            for name, count in counts.items():
                if count != self.counts[name]:
                    self.progress[name].update(count)
            self.counts, self.moved, self.warned = counts, time.monotonic(), False
            return
        self.calls.show()
        quiet_s = time.monotonic() - self.moved
        if quiet_s > self.stall_s / 20 and (self._answering() or self._passing()):
            self.moved, self.warned = time.monotonic(), False
            return
        if quiet_s > self.stall_s:
            raise StalledError(self._message(quiet_s))
        if quiet_s > self.stall_s / 10 and not self.warned:
            self.warned = True
            say(self._message(quiet_s))

    def _answering(self) -> bool:
        """Whether an engine has answered since the last check, as a part may take hours."""
        answered: int = sum(done["calls"] for done in self.figures().values())
        moved, self.answered = answered != self.answered, answered
        return moved

    def _passing(self) -> bool:
        """Whether a worker has passed rows since the last check, as a part may take an hour."""
        passed = self._passes()
        moved, self.passed = passed != self.passed, passed
        return moved

    def _passes(self) -> dict[Path, float]:
        """When rows of each unfinished part were last passed, by the notes beside the parts.

        On an object store only workers of this machine are seen.
        """
        found = {}
        for name, fingerprint in self.fingerprints.items():
            for path in self.store.stage_dir(name, fingerprint).glob(note_name("*")):
                if path.name in self.notes:
                    with suppress(FileNotFoundError):
                        found[path] = path.stat().st_mtime
        return found

    def _message(self, quiet_s: float) -> str:
        free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
        waiting = ", ".join(
            f"{name} has {self.total - count} parts to do"
            for name, count in self.counts.items()
            if count < self.total
        )
        return (
            f"no part was finished and no row passed for {quiet_s:.0f} s: {waiting}; free: "
            f"{free.get('CPU', 0.0):g} CPU, {free.get('GPU', 0.0):g} GPU"
        )


_LOOK_S = 1.0
_OWN_GONE_S = 3.0
"""A head that this process started never comes back."""
_GONE_S = 45.0
"""A cluster's head may, and Ray gives it 60 s."""


def watch_head(own: bool) -> None:
    """Watch, in a thread, the head (GCS) of this process; `own` if the process started it.

    When it is gone, the process ends with one line that says what to do. Ray itself waits for a
    minute, then ends the process from C++ with a page of its own. The job's finished parts are on
    disk, so it ends no worse than when it is killed, and goes on when it is started again.
    """
    address = ray.get_runtime_context().gcs_address
    threading.Thread(target=_watch, args=(address, own), name="ray-head", daemon=True).start()


def _watch(address: str, own: bool) -> None:
    answered = time.monotonic()
    host, _, port = address.rpartition(":")
    while ray.is_initialized() and ray.get_runtime_context().gcs_address == address:
        if listens(host, int(port)):
            answered = time.monotonic()
        elif time.monotonic() - answered > (_OWN_GONE_S if own else _GONE_S):
            _end(address, own)
        time.sleep(_LOOK_S)


def listens(host: str, port: int, timeout_s: float = _LOOK_S) -> bool:
    """Whether something accepts connections at an address."""
    try:
        socket.create_connection((host.strip("[]"), port), timeout=timeout_s).close()
    except OSError:
        return False
    return True


def _end(address: str, own: bool) -> None:
    """Say what happened, and end the process as Ray would, but before it does."""
    again = "" if own else " once `ray status` answers on its node"
    say(
        f"error: the head of Ray (GCS) at {address} is gone; what is finished stays, and the "
        f"same command goes on{again}"
    )
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # Ray's threads tell what follows, at length
    if own:
        node: Any = ray._private.worker._global_node
        node.kill_all_processes(check_alive=False, allow_graceful=False)
        forget_folder()
    os._exit(1)
