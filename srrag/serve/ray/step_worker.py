"""Runs the steps of a separate deployment: opens them once per build version, works in batches."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pyarrow as pa

from srrag.core.rows import isolated
from srrag.core.step import Function, Place
from srrag.llm.completion import one_line
from srrag.retrieve.search import Search, SearchChannel, SearchDense
from srrag.serve.batcher import Batcher, Ticket
from srrag.serve.errors import ApiError
from srrag.serve.remote_steps import RemoteCall, found_table, packed, unpacked
from srrag.serve.settings import ServeSettings
from srrag.serve.snapshot import placed
from srrag.storage.manifest import check_files, manifest_files
from srrag.storage.mirror import store_at

VERSIONS = 2
"""Build versions kept open: the current one, and the one that it replaces."""

Key = tuple[str, int]

_SHARD = re.compile(r"shard-.*\.faiss")


@dataclass(frozen=True)
class StepTask:
    """A call with its table; a call without a table only opens the step."""

    work: RemoteCall
    table: pa.Table | None


class StepWorker:
    """Runs the steps of one deployment, or searches one shard of its index."""

    def __init__(self, settings: ServeSettings, name: str, shard: int = 0) -> None:
        """Bind the steps; `open`, or the first call on a version of the build, opens them."""
        self._settings = settings
        self._apart = settings.apart[name]
        self._steps = settings.steps_apart(name)
        self._shard = shard
        self._functions: dict[Key, Function] = {}
        self._searches: dict[Key, Search] = {}
        self._folders = tempfile.TemporaryDirectory(prefix="srrag-shard-")
        self._is_open = False
        limits = settings.limits
        self.batcher: Batcher[StepTask, pa.Table] = Batcher(
            self._work, lambda kind: self._apart.max_tables, limits.max_waiting
        )

    def open(self) -> None:
        """Open the steps on the current build, so that the first call finds them open."""
        at, version = placed(self._settings)
        for step in range(len(self._steps)):
            self._open(RemoteCall(step, version, dict(at.artifacts)))

    async def run(self, work: RemoteCall, table: bytes, seconds: float) -> bytes | ApiError:
        """Run a call within `seconds`; returns an ApiError, and raises errors of the step."""
        task = StepTask(work, unpacked(table) if table else None)
        kind = work.kind if table else f"open {work.kind}"
        try:
            ticket = self.batcher.submit(kind, task, time.monotonic() + seconds)
            return packed(await self.batcher.result(ticket))
        except ApiError as fault:
            return fault

    async def check_health(self) -> None:
        """Open the steps, then raise if a batch is stuck; Ray sends no calls before it passed once.

        A build that cannot be opened stops no replica: calls name the version that they are for.
        """
        if not self._is_open:
            self._is_open = True
            try:
                await asyncio.to_thread(self.open)
            except (ValueError, OSError) as error:
                print(f"not opened before it is asked for: {one_line(error)}", file=sys.stderr)
        if self.batcher.busy_s() > self._settings.limits.stuck_s:
            raise RuntimeError(f"a batch is in hand for {self.batcher.busy_s():.0f} s")

    async def close(self) -> None:
        """Finish queued and running work, then delete the shards' folders."""
        await self.batcher.close(self._settings.limits.drain_s)
        self._folders.cleanup()

    def _work(
        self, kind: str, tickets: Sequence[Ticket[StepTask, pa.Table]]
    ) -> list[pa.Table | Exception]:
        tables = [ticket.item.table for ticket in tickets if ticket.item.table is not None]
        work = tickets[0].item.work
        if len(tables) < len(tickets):
            self._open(work)
            return [pa.table({})] * len(tickets)
        ends = list(accumulate(map(len, tables), initial=0))

        def run(start: int, stop: int) -> list[pa.Table | Exception]:
            out = self._done(work, pa.concat_tables(tables[start:stop]).combine_chunks())
            spans = zip(ends[start:stop], tables[start:stop], strict=True)
            return [out.slice(end - ends[start], len(table)) for end, table in spans]

        results = isolated(run, 0, len(tables), lambda number, error: [error])
        return [each for result in results for each in result]

    def _done(self, work: RemoteCall, table: pa.Table) -> pa.Table:
        self._open(work)
        step, key = self._steps[work.step], (work.version, work.step)
        if work.tracks is not None:
            return found_table(self._searches[key](table, work.tracks))
        out = self._functions[key](table)
        return out.select(step.writes.names).cast(step.writes)

    def _open(self, work: RemoteCall) -> None:
        """Open a step on a build version, and drop the oldest version if there are too many."""
        key = (work.version, work.step)
        if key in self._functions or key in self._searches:
            return
        versions = list(dict.fromkeys(v for v, _ in (*self._functions, *self._searches)))
        for old in versions[: max(0, len({*versions, work.version}) - VERSIONS)]:
            for opened in (self._functions, self._searches):
                for each in [each for each in opened if each[0] == old]:
                    del opened[each]
        step, at = self._steps[work.step], self._place(work)
        if isinstance(step, SearchChannel):
            self._searches[key] = step.searcher(at)
        else:
            self._functions[key] = step.open(at)

    def _place(self, work: RemoteCall) -> Place:
        step, artifacts = self._steps[work.step], dict(work.artifacts)
        if self._apart.shards > 1 and isinstance(step, SearchDense):
            artifacts[step.index] = self._part(Path(artifacts[step.index]))
        return Place(
            artifacts=artifacts,
            root=self._settings.root,
            device=self._apart.device,
            threads=self._apart.threads,
        )

    def _part(self, folder: Path) -> Path:
        """Make a folder of links to every n-th file of a vector index, for this shard.

        Raises ValueError if the index has fewer files than there are shards.
        """
        names = manifest_files(folder)
        shards = sorted(Path(name).stem for name in names if _SHARD.fullmatch(name))
        if len(shards) < self._apart.shards:
            raise ValueError(f"shards: {self._apart.shards}, and {folder} has {len(shards)} files")
        own = {*shards[self._shard :: self._apart.shards], "index"}

        def is_own(name: str) -> bool:
            return Path(name).stem in own

        if store_at(folder):  # on ordinary folders the files were checked when they were bound
            check_files(folder, is_own)
        part = Path(tempfile.mkdtemp(dir=self._folders.name))
        for name in filter(is_own, names):
            (part / name).symlink_to(folder / name)
        return part
