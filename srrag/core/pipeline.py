"""A pipeline: a chain of Steps over one growing table with a row a question.

`rank` holds the steps up to the final ranking (column `hits`), `answer` those after it. Each step
adds columns, and overwrites only those it declares in `revises`. A step that fails on a row rejects
that row; the others go on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.errors import UsageError
from srrag.core.rows import isolated
from srrag.core.schema import HITS, QUESTIONS, REJECT, conform, empty_column, rows_of
from srrag.core.spec import fingerprint, place_field
from srrag.core.step import OPTIONAL, Function, LLMStep, Place, Step, bare, within
from srrag.llm.completion import one_line
from srrag.storage.manifest import check_files
from srrag.storage.mirror import store_at
from srrag.storage.store import Store

KEYS = {
    "truncated": "max_tokens",
    "whitespace": "max_tokens",
    "too_long": "engine.max_model_len",
    "timeout": "engine.timeout_s",
}
"""The setting to raise for each fault; a fault that is not here may pass on a retry (`again`)."""


def spare(step: Step, table: pa.Table) -> tuple[pa.Table, dict[int, str]]:
    """Clear the rejects that an auxiliary step made, so that its rows go on.

    `table` holds rows that no earlier step rejected. Returns the table and, by row number, what the
    step lost. Rejects of any other step stay.
    """
    if table["reject"].null_count == table.num_rows:
        return table, {}
    rejects = table["reject"].to_pylist()
    lost = {row: reject for row, reject in enumerate(rejects) if reject is not None}
    if not (isinstance(step, LLMStep) and step.auxiliary and lost):
        return table, {}
    place = table.column_names.index("reject")
    alive = pa.nulls(table.num_rows, REJECT)
    table = table.set_column(place, table.schema.field("reject"), alive)
    return table, {row: why(step, reject) for row, reject in lost.items()}


def why(step: LLMStep, reject: Mapping[str, Any]) -> str:
    """Describe a reject and name the key of the step or its engine to raise."""
    key = KEYS.get(reject["reason"], "again")
    value = getattr(step.engine if key.startswith("engine.") else step, key.split(".")[-1], None)
    now = "" if value is None else f" (now {value})"
    return f"{reject['reason']}: {reject['detail']} Raise {key} of {type(step).__name__}{now}."


# One step of a run: its cost for the question's batch, the numbers of questions in and out, and
# the length of the list that it wrote for this question (-1: it wrote no list).
# `fault` says why an auxiliary step gave this question nothing; "" means that it succeeded.
TRACE = rows_of("step seconds:double rows_in:int rows_out:int items:int fault")
_ROW = "_row"


def chain(steps: Mapping[str, Any] | Sequence[Any] | None) -> tuple[Step, ...]:
    """Return steps in order, from a list or from names to steps; null entries are left out.

    A name may also stand for several steps by their names. Raises ValueError for anything else.
    """
    found: list[Step] = []
    for step in (steps.values() if isinstance(steps, Mapping) else steps) if steps else ():
        if isinstance(step, Mapping):
            found += chain(step)
        elif isinstance(step, Step):
            found.append(step)
        elif step is not None:
            raise ValueError(f"{step!r} is no step")
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class PipelineSlice(Step):
    """Consecutive steps of a pipeline that run as one stage, after the steps of `before`.

    The columns of earlier steps stay. Pipelines that begin with the same steps share such stages.
    """

    steps: tuple[Step, ...]
    before: tuple[Step, ...] = place_field(default=())

    reads: ClassVar[tuple[str, ...]] = ("query_id", "text")

    @property
    def writes(self) -> pa.Schema:
        """The questions with the columns of every step so far and the trace."""
        fields = [item for item in QUESTIONS if item.name != "reject"]
        fields += [item for step in (*self.before, *self.steps) for item in added(step)]
        return pa.schema([*fields, pa.field("trace", TRACE), pa.field("reject", REJECT)])

    def needs(self) -> tuple[str, ...]:
        """The stages whose artifacts the steps open."""
        return tuple(dict.fromkeys(name for step in self.steps for name in step.needs()))

    def identity(self) -> dict[str, Any]:
        """The prompt files and learned parameters of the steps."""
        return {str(n): found for n, step in enumerate(self.steps) if (found := step.identity())}

    def open(self, at: Place) -> Function:
        """Open every step."""
        opened = [(bare(step), added(step), step.open(at)) for step in self.steps]
        writes = self.writes

        def run(batch: pa.Table) -> pa.Table:
            table, rejected = _living(_numbered(batch))
            trace: list[dict[str, object]] = []
            faults: list[dict[int, str]] = []
            for step, columns, function in opened:
                started, rows_in = time.perf_counter(), table.num_rows
                table, failed = _apply(step, columns, function, table)
                table, lost = spare(step, table)
                faults.append({table[_ROW][row].as_py(): said for row, said in lost.items()})
                table, dead = _living(table)
                rejected += [*failed, *dead]
                seconds = time.perf_counter() - started
                trace.append(
                    {
                        "step": type(step).__name__,
                        "seconds": seconds,
                        "rows_in": rows_in,
                        "rows_out": table.num_rows,
                    }
                )
            return self._join(writes, table, rejected, trace, faults)

        return run

    @cached_property
    def _lists(self) -> list[str]:
        """The last list that each step writes, "" for none."""
        lists = ([f.name for f in step.writes if pa.types.is_list(f.type)] for step in self.steps)
        return [names[-1] if names else "" for names in lists]

    def filled(self, rows: pa.Table) -> pa.Table:
        """Add the missing columns of these steps, empty, to rows that were rejected earlier."""
        numbered = _numbered(rows)
        return self._join(self.writes, numbered.slice(0, 0), [numbered], [], [])

    def _join(
        self,
        writes: pa.Schema,
        table: pa.Table,
        rejected: Sequence[pa.Table],
        trace: list[dict[str, object]],
        faults: list[dict[int, str]],
    ) -> pa.Table:
        """Put the rejected rows back in their places, with their missing columns empty."""
        tables, places = [], []
        for part in [each for each in (table, *rejected) if each.num_rows] or [table]:
            held = dict(zip(part.column_names, part.columns, strict=True))
            held["trace"] = self._traced(held, part.num_rows, trace, faults)
            columns = [
                held[item.name]
                if item.name in held
                else pa.array([empty_column(item)] * part.num_rows, item.type)
                for item in writes
            ]
            tables.append(pa.table(columns, schema=writes))
            places += held[_ROW].to_pylist()
        joined = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        if places != sorted(places):
            joined = joined.take(np.argsort(places))
        return joined.combine_chunks()

    def _traced(
        self,
        held: Mapping[str, pa.ChunkedArray],
        num_rows: int,
        trace: list[dict[str, object]],
        faults: list[dict[int, str]],
    ) -> pa.Array:
        """Return the trace of every row of a part: the earlier steps, then these."""
        lengths = [_lengths(held, num_rows, name) for name in self._lists[: len(trace)]]
        columns = zip(*lengths, strict=True) if lengths else [()] * num_rows
        before = held["trace"].to_pylist() if "trace" in held else [[]] * num_rows
        rows = [
            [
                *former,
                *(
                    {**entry, "items": n, "fault": lost.get(row, "")}
                    for entry, n, lost in zip(trace, counts, faults, strict=True)
                ),
            ]
            for row, former, counts in zip(held[_ROW].to_pylist(), before, columns, strict=True)
        ]
        return pa.array(rows, TRACE)


@dataclass(frozen=True, kw_only=True)
class Pipeline(Step):
    """Steps in order. A Pipeline is itself a Step, so runners and the server can run it.

    `rank` and `answer` may map names to steps, so that a setting can address one step
    (`pipeline.rank.search.rounds=2`) or leave it out (`pipeline.answer.snippets=null`).
    """

    rank: tuple[Step, ...]
    answer: tuple[Step, ...] = ()

    reads: ClassVar[tuple[str, ...]] = ("query_id", "text")

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps in order."""
        return (*self.rank, *self.answer)

    @property
    def whole(self) -> PipelineSlice:
        """All steps as one segment."""
        return PipelineSlice(steps=self.steps)

    @property
    def writes(self) -> pa.Schema:
        """The questions with the columns of every step and the trace."""
        return self.whole.writes

    def __post_init__(self) -> None:
        """Raise ValueError if a step reads what none before it wrote, or overwrites a column."""
        object.__setattr__(self, "rank", chain(self.rank))
        object.__setattr__(self, "answer", chain(self.answer))
        have = set(QUESTIONS.names)
        for step in self.steps:
            name = type(step).__name__
            for column in step.reads:
                if column not in have:
                    raise ValueError(f"{name} reads column {column!r}, which no step before wrote")
            for item in added(step):
                if item.name in have:
                    raise ValueError(f"{name} would overwrite column {item.name!r}")
                have.add(item.name)
            for column in step.revises:
                if column not in have:
                    raise ValueError(f"{name} revises column {column!r}, which none before wrote")
        if self.rank and [item.name for item in added(self.rank[-1])][-1:] != ["hits"]:
            raise ValueError("the last step of `rank` has to write the column 'hits'")
        if self.rank and not self.rank[-1].writes.field("hits").type.equals(HITS):
            raise ValueError("the column 'hits' has to be a list of hits")

    def needs(self) -> tuple[str, ...]:
        """The stages whose artifacts the steps open."""
        return self.whole.needs()

    def identity(self) -> dict[str, Any]:
        """The prompt files and learned parameters of the steps."""
        return self.whole.identity()

    @property
    def engines(self) -> tuple[str, ...]:
        """Names of the engines that the steps ask."""
        names = (step.engine.name for step in within(self) if isinstance(step, LLMStep))
        return tuple(dict.fromkeys(names))

    @property
    def left_out(self) -> list[str]:
        """Names of the steps that do nothing because no model is configured."""
        asking = (step for step in within(self) if isinstance(step, LLMStep))
        return [type(step).__name__ for step in asking if step.off]

    def ranking(self) -> Pipeline:
        """The same pipeline without its answer steps."""
        return Pipeline(rank=self.rank)

    def open(self, at: Place) -> Function:
        """Open every step."""
        return self.whole.open(at)


def chained(*items: Step) -> Pipeline:
    """Put steps and pipelines in one pipeline; the steps up to the column `hits` rank.

    `a >> b` calls this. Raises ValueError if a step reads what none before it wrote.
    """
    steps = [
        step for item in items for step in (item.steps if isinstance(item, Pipeline) else (item,))
    ]
    ranked = [n for n, step in enumerate(steps) if "hits" in (each.name for each in added(step))]
    end = ranked[-1] + 1 if ranked else 0
    return Pipeline(rank=tuple(steps[:end]), answer=tuple(steps[end:]))


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))


def _living(table: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
    """The rows that no step has rejected, and the rejected ones, if there are any."""
    rejects = table["reject"]
    if rejects.null_count == table.num_rows:
        return table, []
    alive = pc.is_null(rejects)
    return table.filter(alive), [table.filter(pc.invert(alive))]


def _lengths(held: Mapping[str, pa.ChunkedArray], num_rows: int, name: str) -> list[int]:
    """Return the length of a list that a step wrote, for each row; -1 if it wrote none."""
    if name not in held:
        return [-1] * num_rows
    found = pc.list_value_length(held[name]).to_pylist()
    return [-1 if length is None else length for length in found]


def added(step: Step) -> list[pa.Field]:
    """Return the columns that a step adds. `reject` exists from the start; any step may set it."""
    return [item for item in step.writes if item.name != "reject"]


def _apply(
    step: Step, columns: Sequence[pa.Field], function: Function, table: pa.Table
) -> tuple[pa.Table, list[pa.Table]]:
    """Apply a step that adds `columns`; if it raises, halve the rows: the failing are rejected."""
    name = type(step).__name__

    def run(start: int, stop: int) -> tuple[pa.Table, list[pa.Table]]:
        rows = table if stop - start == table.num_rows else table.slice(start, stop - start)
        out = function(rows)
        held = set(out.schema.names)
        missing = [item.name for item in columns if item.name not in held]
        if missing:
            raise ValueError(f"{name} did not write column {missing[0]!r}")
        if out.num_rows != rows.num_rows:
            raise ValueError(f"{name} made {out.num_rows} rows of {rows.num_rows}")
        return conform(out, pa.schema([*table.schema, *columns])), []

    def fault(row: int, error: Exception) -> tuple[pa.Table, list[pa.Table]]:
        reason = {"stage": name, "reason": type(error).__name__, "detail": one_line(error)}
        place = table.column_names.index("reject")
        reject = pa.field("reject", REJECT), pa.array([reason], REJECT)
        none = pa.schema([*table.schema, *columns]).empty_table()
        return none, [table.slice(row, 1).set_column(place, *reject)]

    results = isolated(run, 0, table.num_rows, fault)
    if len(results) == 1:
        return results[0]
    return (
        pa.concat_tables([out for out, _ in results]),
        [row for _, rows in results for row in rows],
    )


def build_version(store: Store, build: str) -> str:
    """Hash a build's content: the fingerprints of its stages and the hashes of their files."""
    return fingerprint(store.contents(build))


def bind(store: Store, build: str, needs: Iterable[str], at: Place) -> Place:
    """Return the place with the artifacts of a build, whose needed stages are all there.

    On a local disk it checks the files of these stages now, on an object store once a step opens
    them. Raises ValueError that names a stage which is not built, or a damaged file; for the graph
    with the command that makes it.
    """
    artifacts = store.artifacts(build)
    for stage in dict.fromkeys(needs):
        if stage not in artifacts:
            if stage in OPTIONAL:
                continue
            if stage == "graph":
                raise UsageError(without_graph(store, build))
            raise ValueError(f"pipeline: stage {stage!r} is not in build {build!r}")
        if store_at(store.root) is None:
            check_files(artifacts[stage])
    return replace(at, artifacts=artifacts, root=store.root)


def without_graph(store: Store, build: str) -> str:
    """What to say of a build without a graph: the command that made it makes the graph as well."""
    command = re.sub(r" plan=\S+", "", store.read_pointer(build)["command"])
    return f"build {build!r} of root={store} has no graph; `{command} plan=graph` adds it"
