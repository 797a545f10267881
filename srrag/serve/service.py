"""The pipeline service: answers batches on the current snapshot, and reloads while it answers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from srrag.core.pipeline import build_version
from srrag.engine.base import Model, Opener
from srrag.llm.completion import one_line
from srrag.serve.batcher import Batcher, Ticket, Turns
from srrag.serve.errors import ApiError, late, stopping
from srrag.serve.remote_steps import all_here
from srrag.serve.settings import Rate, ServeSettings
from srrag.serve.snapshot import (
    ENGINE_RETRY_S,
    Asking,
    Move,
    PipelineJob,
    PipelineResult,
    SharedEngines,
    Snapshot,
)
from srrag.serve.telemetry import Metrics, traces_to
from srrag.storage.mirror import bring
from srrag.storage.store import Store

T = TypeVar("T")
Lane = Batcher[Callable[[], Any], Any]

_FAILED_PAUSE = 10
"""Factor by which the watch pause grows after a build that could not be opened."""


@dataclass(frozen=True)
class AccessLog:
    """The log of requests: a JSON object a line, in a file that all replicas share or on stderr.

    It opens the file for each line, so that the file can be rotated at any time.
    """

    path: Path | None = None

    def __call__(self, **fields: Any) -> None:
        """Write one line."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = json.dumps({"at": at, **fields}, ensure_ascii=False)
        if self.path is None:
            print(line, file=sys.stderr, flush=True)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8", errors="replace", opener=_private) as file:
            file.write(line + "\n")


def _private(path: str, flags: int) -> int:
    """Open a file that, if it is new, only its owner may read: lines hold callers and errors."""
    return os.open(path, flags, mode=0o600)


class PipelineService:
    """Answers questions on the current snapshot, and switches to a new one between batches.

    A batch finishes on the snapshot that it started with. A replaced snapshot closes after its
    last batch.
    """

    def __init__(
        self,
        settings: ServeSettings,
        move: Move = all_here,
        openers: Mapping[Model, Opener] | None = None,
    ) -> None:
        """Bind the settings; `move` moves steps and `openers` move engines to other deployments."""
        self.settings = settings
        self._move, self._openers = move, openers
        self.metrics = Metrics()
        self.log = AccessLog(settings.log)
        self.traces = traces_to(settings.traces)
        self._edition: Snapshot | None = None
        self._in_hand: Counter[Snapshot] = Counter()
        self._turn = threading.Lock()
        self._exchange = asyncio.Lock()
        self._watcher: asyncio.Task[None] | None = None
        self._stopped_at = 0.0
        self._renewing: asyncio.Task[None] | None = None
        limits = settings.limits
        self.rate = Rate(limits.per_minute, limits.burst)
        self.stale = ""
        """Why the newest build version could not be opened; "" if it answers."""
        self.turns = Turns()
        models = any(settings.asks_model(name) for name in settings.pipelines)
        self.batcher: Batcher[PipelineJob, PipelineResult] = Batcher(
            self._work, self._max_rows, limits.max_waiting,
            limits.calls if models else 1, len(settings.keys) > 1, self.turns, self.metrics.batch,
        )  # fmt: skip
        self.calls = self._lane()
        """The lane of what is no question: texts to rank, walks of the graph, what a page reads."""
        self.replies = self._lane()
        """The lane in which answers that are made are written: no long call holds them up."""
        self.metrics.waiting.set_function(lambda: self.batcher.waiting)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open the snapshot, watch the build for new versions, and drain at the end."""
        self._edition = await asyncio.to_thread(self._open, None)
        if self.settings.limits.watch_s:
            self._watcher = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            if self._watcher is not None:
                self._watcher.cancel()
            await self.batcher.close(self.settings.limits.drain_s)
            lanes = (self.calls, self.replies)
            await asyncio.gather(*(lane.close(self.settings.limits.drain_s) for lane in lanes))
            await self._exchanged(None)
            if self.traces is not None:
                await asyncio.to_thread(self.traces.close)

    @property
    def edition(self) -> Snapshot:
        """The current snapshot; raises ApiError before the start and after the end."""
        if self._edition is None:
            raise stopping()
        return self._edition

    def ask(self, kind: str, asked: PipelineJob, deadline: float, caller: str = "") -> Asking:
        """Queue a job; raises ApiError at once if the queue is full or the server is stopping."""
        _ = self.edition
        return self.batcher.submit(kind, asked, deadline, caller)

    async def call(
        self, make: Callable[[], T], deadline: float, caller: str, lane: Lane | None = None
    ) -> T:
        """What `make` returns, made in its caller's turn; raises ApiError and what it raises.

        It waits in the lane `calls` or in the one given.
        """
        lane = lane or self.calls
        made: T = await lane.result(lane.submit("call", make, deadline, caller))
        return made

    async def answered(self, ticket: Asking) -> PipelineResult:
        """Wait for the result of a job; raises ApiError."""
        try:
            found = await self.batcher.result(ticket)
        except ApiError as fault:
            if fault.code == "engine":
                self._renew_engines()
            raise
        self.metrics.answer(ticket.kind, found)
        return found

    async def reload(self, renewed: bool = False) -> str:
        """Open the current version of the build, then switch to it.

        Returns the version that answers from now on. Raises ValueError or OSError, and keeps the
        former snapshot, if the new one cannot be opened. With `renewed` it opens on new engines,
        even if the version is the same.
        """
        async with self._exchange:
            former = self.edition
            try:
                new = await asyncio.to_thread(self._open, None if renewed else former)
            except Exception as error:
                self.stale = one_line(error) or type(error).__name__
                self.metrics.reloads.labels("failed").inc()
                raise
            self.stale = ""
            if new is not former:
                await self._exchanged(new)
                self.metrics.reloads.labels("done").inc()
                self.log(event="reload", version=new.version)
            return new.version

    def check(self) -> None:
        """Raise RuntimeError if a batch is stuck."""
        if self.batcher.busy_s() > self.settings.limits.stuck_s:
            raise RuntimeError(f"a batch is in hand for {self.batcher.busy_s():.0f} s")

    def _open(self, former: Snapshot | None) -> Snapshot:
        """Open a snapshot on the former one's engines; returns it if the build has not changed.

        Without a former one, new engines start, and end if no snapshot opens on them.
        """
        if former is not None:
            store = Store(self.settings.root)
            if build_version(store, self.settings.build) == former.version:
                return former
        engines = former.engines if former else SharedEngines(self.settings, self._openers)
        try:
            return Snapshot(self.settings, engines, self._move)
        except BaseException:
            engines.close_unused()
            raise

    def _max_rows(self, kind: str) -> int:
        """Largest batch: one row if a model answers, so that no row waits for another's answer."""
        alone = self.settings.asks_model(kind.partition(":")[2])
        return 1 if alone else self.settings.limits.max_rows

    def _work(self, kind: str, tickets: Sequence[Asking]) -> Sequence[PipelineResult | Exception]:
        with self._turn:
            edition = self.edition
            self._in_hand[edition] += 1
        try:
            return edition.work(kind, tickets, self.turns, self.metrics.usage)
        finally:
            with self._turn:
                self._in_hand[edition] -= 1
                last = edition is not self._edition and not self._in_hand.get(edition)
                self._in_hand += Counter()  # removes snapshots without running batches
            if last:
                edition.close()

    def _lane(self) -> Lane:
        """A lane of calls, one at a time for each caller; its threads start with its calls."""
        limits, shared = self.settings.limits, len(self.settings.keys) > 1
        return Batcher(self._called, lambda kind: 1, limits.max_waiting, 1, shared, self.turns)

    def _called(
        self, kind: str, tickets: Sequence[Ticket[Callable[[], Any], Any]]
    ) -> Sequence[Any | Exception]:
        """What each ticket's function returns in its caller's turn, or the error it raises."""
        return [self._made(ticket) for ticket in tickets]

    def _made(self, ticket: Ticket[Callable[[], Any], Any]) -> Any:
        self.turns.wait(ticket.caller, lambda: not ticket.gone())
        try:
            return late() if ticket.gone() else ticket.item()
        except Exception as error:  # its caller's, not the lane's
            return error

    async def _exchanged(self, new: Snapshot | None) -> None:
        """Set the current snapshot, and close the former one unless a batch still runs on it."""
        with self._turn:
            former, self._edition = self._edition, new
            idle = former is not None and not self._in_hand[former]
        if former is not None and idle:
            await asyncio.to_thread(former.close)

    def _renew_engines(self) -> None:
        """Restart the engines, as stopped ones stay stopped: one restart at a time.

        One begins once per ENGINE_RETRY_S at most.
        """
        if self._renewing is not None and not self._renewing.done():
            return
        if time.monotonic() - self._stopped_at < ENGINE_RETRY_S:
            return
        self._stopped_at = time.monotonic()
        self._renewing = asyncio.create_task(self._renewed())

    async def _renewed(self) -> None:
        try:
            await self.reload(renewed=True)
        except Exception as error:  # the next question that finds no engine tries again
            self._log_failed(error)

    def _log_failed(self, error: Exception) -> None:
        self.log(event="reload", error=f"{type(error).__name__}: {one_line(error)}")

    async def _watch(self) -> None:
        """Reload when the build's pointer changes."""
        path = Store(self.settings.root).pointer_path(self.settings.build)
        seen, pause = None, self.settings.limits.watch_s
        while True:
            await asyncio.sleep(pause)
            pause = self.settings.limits.watch_s
            try:
                now = await asyncio.to_thread(_state, path)
                if now != seen:
                    await self.reload()
                    seen = now
            except Exception as error:  # a build that this version cannot read may raise any
                pause *= _FAILED_PAUSE
                self._log_failed(error)


def _state(path: Path) -> tuple[int, int] | None:
    """A pointer's inode and modification time in ns, which change with every swap, or None."""
    try:
        state = bring(path).stat()
    except FileNotFoundError:
        return None
    return state.st_ino, state.st_mtime_ns
