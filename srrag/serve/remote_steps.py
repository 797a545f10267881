"""Runs steps of a pipeline in other deployments.

Tables travel as Arrow IPC bytes: the columns that the step reads go out, those it adds come back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from srrag.core.hits import FoundWindows, rank, unpack_hits
from srrag.core.pipeline import Pipeline
from srrag.core.step import Function, Place, Step, StepWrapper
from srrag.retrieve.search import Search, SearchChannel
from srrag.serve.listeners import audience
from srrag.serve.settings import ServeSettings

T = TypeVar("T")
Tracks = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class RemoteCall:
    """A call to a step of another deployment, on one version of the build.

    `step` is the step's number within its deployment. A call without a table only opens the step;
    a call with `tracks` is a search.
    """

    step: int
    version: str
    artifacts: Mapping[str, Path]
    tracks: Tracks | None = None

    @property
    def kind(self) -> str:
        """The kind of batch: calls of the same kind can share one."""
        return f"{self.version}/{self.step}/{self.tracks}"


RemoteCaller = Callable[[RemoteCall, bytes, float, Callable[[], bool]], bytes]
"""Sends a call with its table to another deployment, and waits for so many seconds at most, while
the function returns True. Raises the step's own error, Refused, or ClientGone."""
Callers = Mapping[str, Sequence[RemoteCaller]]
"""The callers of each deployment by its name, one per shard."""


def all_here(pipeline: Pipeline, at: Place, version: str) -> Pipeline:
    """Return the pipeline unchanged, so that every step runs in this process."""
    return pipeline


def apart(settings: ServeSettings, callers: Callers) -> Callable[[Pipeline, Place, str], Pipeline]:
    """Return a function that moves the chosen steps of a pipeline to their deployments."""
    chosen = {name: settings.steps_apart(name) for name in callers}

    def moved(pipeline: Pipeline, at: Place, version: str) -> Pipeline:
        def change(step: Step) -> Step | None:
            for name, steps in chosen.items():
                if step in steps:
                    work = RemoteCall(steps.index(step), version, dict(at.artifacts))
                    return _away(step, work, callers[name], settings.limits.timeout_s)
            return None

        return _exchanged(pipeline, change)

    return moved


def packed(table: pa.Table) -> bytes:
    """Write a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def unpacked(stream: bytes) -> pa.Table:
    """Read the table of an Arrow IPC stream."""
    return pa.ipc.open_stream(stream).read_all().combine_chunks()


def found_table(found: Sequence[FoundWindows]) -> pa.Table:
    """Pack a search's results: `hits_N` and `paths_N` per track N."""
    columns = {}
    for number, each in enumerate(found):
        columns[f"hits_{number}"] = each.hits()
        columns[f"paths_{number}"] = each.path_lists()
    return pa.table(columns)


def found_of(table: pa.Table, number: int) -> FoundWindows:
    """The results of one track, from a table of `found_table`."""
    ids, scores, offsets = unpack_hits(table[f"hits_{number}"])
    paths = table[f"paths_{number}"].combine_chunks().flatten()
    return FoundWindows(ids.cast(pa.string()), scores, offsets, paths.flatten())


def merged(parts: Sequence[FoundWindows], k: int) -> FoundWindows:
    """Merge the results from the shards of an index: the k best windows of each question."""
    if len(parts) == 1:
        return parts[0]
    ranked = []
    for row in range(len(parts[0].offsets) - 1):
        spans = [(part, slice(part.offsets[row], part.offsets[row + 1])) for part in parts]
        ids = pa.concat_arrays([part.unit_ids[span] for part, span in spans])
        ranked.append(rank(ids, np.concatenate([part.scores[span] for part, span in spans]), k))
    return FoundWindows.of(ranked)


def _exchanged(item: T, change: Callable[[Step], Step | None]) -> T:
    """Copy an item with its steps replaced, nested ones too; the item itself if none changes."""
    found: Any = item
    inner: dict[Any, Any] = {}
    if isinstance(item, Step) and (other := change(item)) is not None:
        return other  # type: ignore[return-value]
    if isinstance(item, Mapping):
        inner = dict(item)
    elif isinstance(item, (tuple, list)):
        inner = dict(enumerate(item))
    elif is_dataclass(item) and not isinstance(item, type):
        inner = {each.name: getattr(item, each.name) for each in fields(item)}
    moved = {key: _exchanged(value, change) for key, value in inner.items()}
    if all(moved[key] is inner[key] for key in inner):
        return item
    if isinstance(item, Mapping):
        found = moved
    elif isinstance(item, (tuple, list)):
        found = type(item)(moved.values())
    else:
        found = replace(found, **moved)
    return found  # type: ignore[no-any-return]


def _away(step: Step, work: RemoteCall, callers: Sequence[RemoteCaller], seconds: float) -> Step:
    shards = _Shards(callers, seconds)
    if isinstance(step, SearchChannel):
        index, into, k = step.index, step.into, step.k
        return RemoteChannel(step=step, index=index, into=into, k=k, work=work, shards=shards)
    return RemoteStep(step=step, work=work, shards=shards)


class _Shards:
    """Calls all shards of a deployment in parallel."""

    def __init__(self, callers: Sequence[RemoteCaller], seconds: float) -> None:
        self._callers, self._seconds = callers, seconds
        self._pool = ThreadPoolExecutor(len(callers)) if len(callers) > 1 else None

    def __call__(self, work: RemoteCall, table: pa.Table | None) -> list[bytes]:
        """Return each shard's answer, within the time that the request has left."""
        present = audience()
        seconds = self._seconds if present is None else present.left_s()
        wanted = (lambda: True) if present is None else present.wanted
        payload = b"" if table is None else packed(table)

        def ask(caller: RemoteCaller) -> bytes:
            return caller(work, payload, seconds, wanted)

        return list((self._pool.map if self._pool else map)(ask, self._callers))


@dataclass(frozen=True, kw_only=True)
class RemoteStep(StepWrapper):
    """A step that works in another deployment."""

    work: RemoteCall
    shards: _Shards

    def open(self, at: Place) -> Function:
        """Open the step there."""
        self.shards(self.work, None)

        def run(batch: pa.Table) -> pa.Table:
            read = [name for name in batch.column_names if name in {*self.reads, "reject"}]
            (out,) = map(unpacked, self.shards(self.work, batch.select(read)))
            for item in self.writes:
                if item.name in batch.column_names:
                    place = batch.column_names.index(item.name)
                    batch = batch.set_column(place, item, out[item.name])
                else:
                    batch = batch.append_column(item, out[item.name])
            return batch

        return run


@dataclass(frozen=True, kw_only=True)
class RemoteChannel(StepWrapper, SearchChannel):
    """A search in another deployment, or in several that hold a shard of its index each."""

    step: SearchChannel
    work: RemoteCall
    shards: _Shards

    def columns(self, found: FoundWindows) -> list[pa.Array]:
        """The columns of the search."""
        return self.step.columns(found)

    def searcher(self, at: Place) -> Search:
        """Open the search there."""
        self.shards(replace(self.work, tracks=()), None)

        def search(batch: pa.Table, tracks: Sequence[Sequence[str]]) -> list[FoundWindows]:
            asked = replace(self.work, tracks=tuple(map(tuple, tracks)))
            read = [name for name in batch.column_names if name in self.reads]
            parts = list(map(unpacked, self.shards(asked, batch.select(read))))
            return [
                merged([found_of(part, number) for part in parts], self.k)
                for number in range(len(tracks))
            ]

        return search
