"""Run one stage on one part: the unit of work of every runner.

A bad row never costs another row. A row that raises becomes a reject row. If a row kills its
worker, the next attempt goes row by row to find it, and rejects it after three deaths.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.errors import Halt
from srrag.core.rows import isolated
from srrag.core.schema import conform, empty_column
from srrag.core.stage import Stage
from srrag.core.step import Function, OpenedLLMStep
from srrag.llm.completion import AnswersAwaited, Usage, one_line, tallied
from srrag.storage.manifest import DamagedError
from srrag.storage.store import Receipt, Store

BATCHES_IN_FLIGHT = 2
"""Batches of one part whose prompts a model answers at the same time."""

MAX_STRIKES = 3
"""Consecutive deaths of a worker on the same row after which the row is rejected."""

_log = logging.getLogger(__name__)


class Attempt:
    """A note beside an unfinished part; it survives the death of its worker.

    The first attempt takes whole batches. A note means that a worker died: the next attempt goes
    row by row and writes down each row before it runs. Only consecutive deaths on the same row
    count against it, because someone who kills runs by hand hits a different row each time.
    """

    def __init__(self, path: Path) -> None:
        """Read the note of a former attempt, if there is one."""
        self.path = path
        self.careful = path.exists()
        note = _noted(path) if self.careful else {}
        self.poison: list[int] = note.get("poison", [])
        """The rows that have killed their worker too often."""
        self.died: int | None = note.get("died")
        self.deaths: int = note.get("deaths", 0)
        if (row := note.get("row")) is not None:
            self.deaths = self.deaths + 1 if row == self.died else 1
            self.died = row
            if self.deaths >= MAX_STRIKES:
                self.poison.append(row)
        self.touch(None)

    def touch(self, row: int | None) -> None:
        """Write down the row that is about to run; None after it has run."""
        note = {"poison": self.poison, "died": self.died, "deaths": self.deaths, "row": row}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # It must survive the process, not a power cut, so it is not synced.
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(note), "utf-8")
        temporary.replace(self.path)

    def passed(self) -> None:
        """Show by the time of the note that rows were done, for who watches the run."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.path)

    def release(self) -> None:
        """Clear the row from the note: the worker was stopped, it did not die."""
        if self.died is not None:
            self.touch(None)
        else:
            self.done()

    def done(self) -> None:
        """Remove the note of a finished part."""
        self.path.unlink(missing_ok=True)


def _noted(path: Path) -> dict[str, Any]:
    """Read a note; empty if the file is damaged, as after a power cut.

    The existence of the file alone already proves a former attempt.
    """
    try:
        note = json.loads(path.read_text("utf-8"))
        rows = [*note["poison"], note["deaths"]]
        rows += [note[name] for name in ("died", "row") if note[name] is not None]
        return dict(note) if all(type(row) is int for row in rows) else {}
    except (ValueError, KeyError, TypeError):
        return {}


def note_name(part: str) -> str:
    """The name of the note beside an unfinished part."""
    return f".attempt-{part}.json"


def run_part(
    store: Store,
    stage: Stage,
    fingerprint: str,
    source: tuple[str, str],
    part: str,
    function: Function,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> Receipt:
    """Run an opened stage on a part of its input and commit the result.

    `source` is the input stage and its fingerprint; `tick` receives rows done and total rows.
    """
    started = time.perf_counter()
    table = store.read_part(*source, part)
    alive = live(table)
    attempt = Attempt(store.stage_dir(stage.name, fingerprint) / note_name(part))
    outputs, failures = [], []
    usage = Usage()
    try:
        if attempt.careful and isinstance(function, OpenedLLMStep) and function.client is not None:
            _ask_ahead(function, alive, attempt)
        for out, failed, used, row in _results(function, stage, alive, attempt):
            outputs.append(out)
            failures.extend(failed)
            usage.add(used)
            attempt.passed()
            tick(row, alive.num_rows)
        if attempt.careful:
            attempt.touch(None)  # no row is to blame for what follows, such as a full disk
    except (KeyboardInterrupt, SystemExit, Halt, DamagedError):
        attempt.release()
        raise
    result = pa.concat_tables([*outputs, stage.step.writes.empty_table()])
    done = store.write_part(
        stage.name,
        fingerprint,
        part,
        result.combine_chunks(),
        rows_in=table.num_rows,
        skipped=table.num_rows - alive.num_rows,
        failed=len(failures),
        usage=usage.as_dict() if usage != Usage() else {},
        started=started,
    )
    attempt.done()
    return done


def _ask_ahead(function: OpenedLLMStep, rows: pa.Table, attempt: Attempt) -> None:
    """Have all prompts answered, and so logged, before a part goes row by row.

    Row by row, the calls would run one after the other. Only rendering can kill the worker here, so
    only rendering goes row by row.
    """
    prompts = []
    for number in range(rows.num_rows):
        if number in attempt.poison:
            continue
        attempt.touch(number)
        # A row that cannot be rendered is rejected later, when it runs.
        with contextlib.suppress(Exception):
            rendered = function.step.prompts(rows.slice(number, 1))
            prompts += [replace(prompt, row=number) for prompt in rendered]
    attempt.touch(None)
    function.answer(rows, prompts)


def live(table: pa.Table) -> pa.Table:
    """Return the rows that no earlier stage rejected."""
    if "reject" not in table.column_names:
        return table
    return table.filter(pc.is_null(table.column("reject")))


def _results(
    function: Function, stage: Stage, table: pa.Table, attempt: Attempt
) -> Iterator[tuple[pa.Table, list[str], Usage, int]]:
    """Yield the result of each batch of a part, in order, and the number of rows done.

    Several batches that ask a model are in flight, so that the engine stays busy while the last
    answers of a batch arrive and are parsed.
    """
    size = 1 if attempt.careful else max(1, stage.resources.batch_rows)

    awaited: list[AnswersAwaited] = []

    def run(start: int) -> tuple[pa.Table, list[str], Usage, int]:
        rows = table.slice(start, size)
        with tallied() as usage:
            try:
                done = guarded(function, stage, (start, rows), attempt)
            except AnswersAwaited as error:  # the other batches have prompts to collect, too
                awaited.append(error)
                done = stage.step.writes.empty_table(), []
            return *done, usage, start + rows.num_rows

    starts = iter(range(0, table.num_rows, size))
    asks = isinstance(function, OpenedLLMStep) and function.client is not None
    if attempt.careful or not asks:
        yield from map(run, starts)
        _raise(awaited)
        return
    with ThreadPoolExecutor(BATCHES_IN_FLIGHT, thread_name_prefix="batch") as pool:
        waiting = deque(pool.submit(run, start) for start in islice(starts, BATCHES_IN_FLIGHT))
        while waiting:
            result = waiting.popleft().result()
            waiting.extend(pool.submit(run, start) for start in islice(starts, 1))
            yield result
    _raise(awaited)


def _raise(errors: Sequence[Exception]) -> None:
    if errors:
        raise errors[0]


def guarded(
    function: Function,
    stage: Stage,
    piece: tuple[int, pa.Table],
    attempt: Attempt | None = None,
) -> tuple[pa.Table, list[str]]:
    """Apply a step to rows; rows that raise become reject rows in their place.

    Raises a Halt, or a DamagedError of a file that the step reads, as it comes.
    """
    first, rows = piece
    schema = stage.step.writes

    def run(start: int, stop: int) -> tuple[pa.Table, list[str]]:
        if attempt is not None and attempt.careful:
            if start in attempt.poison:
                detail = f"the worker died {MAX_STRIKES} times on this row"
                return rejected(start, "crashed", detail)
            attempt.touch(start)
        return conform(function(rows.slice(start - first, stop - start)), schema), []

    def rejected(row: int, reason: str, detail: str) -> tuple[pa.Table, list[str]]:
        only = rows.slice(row - first, 1)
        return reject_row(only, schema, stage.name, reason, detail), [reason]

    def fault(row: int, error: Exception) -> tuple[pa.Table, list[str]]:
        if isinstance(error, DamagedError):  # a file is at fault, no row
            raise error
        _log.warning("stage %s: a row is rejected", stage.name, exc_info=error)
        return rejected(row, type(error).__name__, one_line(error))

    results = isolated(run, first, first + rows.num_rows, fault)
    tables = pa.concat_tables([table for table, _ in results])
    return tables, [reason for _, failed in results for reason in failed]


def reject_row(row: pa.Table, schema: pa.Schema, stage: str, reason: str, detail: str) -> pa.Table:
    """Make the reject row of an output schema: shared columns kept, the others empty."""
    if "reject" not in schema.names:
        raise ValueError(f"stage {stage}: {reason}: {detail}")
    values = {
        field.name: [
            row.column(field.name)[0].as_py()
            if field.name in row.column_names and row.schema.field(field.name).type == field.type
            else empty_column(field)
        ]
        for field in schema
    }
    values["reject"] = [{"stage": stage, "reason": reason, "detail": detail}]
    return pa.table(values, schema=schema)
