"""Helpers for steps that work row by row: live rows, new columns, rejects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from srrag.core.errors import Halt
from srrag.core.schema import REJECT, empty_column
from srrag.llm.completion import Fault

Row = dict[str, Any]


def live(batch: pa.Table, names: Sequence[str]) -> Iterator[tuple[int, Row]]:
    """Yield the number and these columns of each row that no earlier step rejected."""
    rows = batch.select(list(names)).to_pylist()
    for number, (row, reject) in enumerate(zip(rows, _rejects(batch), strict=True)):
        if reject is None:
            yield number, row


def filled(batch: pa.Table, schema: pa.Schema, made: Mapping[int, Mapping[str, Any]]) -> pa.Table:
    """Add the columns of a schema to the batch; rows that `made` lacks get empty values.

    A row that was rejected earlier keeps its reject.
    """
    blank = {field.name: empty_column(field) for field in schema} | {"reject": None}
    rows = [
        {**blank, **made.get(number, {}), **({"reject": former} if former else {})}
        for number, former in enumerate(_rejects(batch))
    ]
    for field in schema:
        values = pa.array([row[field.name] for row in rows], field.type)
        if field.name in batch.column_names:
            batch = batch.set_column(batch.column_names.index(field.name), field, values)
        else:
            batch = batch.append_column(field, values)
    return batch


def with_columns(batch: pa.Table, columns: pa.Table) -> pa.Table:
    """Return the batch with these columns added; they replace columns of the same name."""
    new = {*columns.column_names}
    kept = batch.select([name for name in batch.column_names if name not in new])
    schema = pa.schema([*kept.schema, *columns.schema])
    return pa.table([*kept.columns, *columns.columns], schema=schema)


def with_rejects(batch: pa.Table, stage: str, faults: Mapping[int, Sequence[Fault]]) -> pa.Table:
    """Reject each live row that has faults, for the first of them."""
    rejects: list[dict[str, str] | None] = []
    for number, former in enumerate(_rejects(batch)):
        found = faults.get(number, ())
        lost = f"{len(found)} answers lost, the first: " if len(found) > 1 else ""
        fault = {
            "stage": stage, "reason": found[0].kind, "detail": lost + found[0].detail
        } if found else None  # fmt: skip
        rejects.append(former or fault)
    column = pa.table({"reject": pa.array(rejects, REJECT)})
    return with_columns(batch, column)


def rejected(stage: str, fault: Fault) -> dict[str, Any]:
    """Return the value that rejects a row in `filled`."""
    return {"reject": {"stage": stage, "reason": fault.kind, "detail": fault.detail}}


def _rejects(batch: pa.Table) -> list[dict[str, str] | None]:
    if "reject" not in batch.column_names:
        return [None] * batch.num_rows
    rejects: list[dict[str, str] | None] = batch["reject"].to_pylist()
    return rejects


T = TypeVar("T")


def isolated(
    run: Callable[[int, int], T], start: int, stop: int, fault: Callable[[int, Exception], T]
) -> list[T]:
    """Run items start … stop - 1 together; while that raises, run the halves by themselves.

    `run(start, stop)` returns one result for its items; `fault(item, error)` stands in for an item
    that fails alone. Returns the results in the order of the items. Raises a Halt as it comes, and
    any error of `run` for no items.
    """
    try:
        return [run(start, stop)]
    except Halt:
        raise
    except Exception as error:
        if start == stop:
            raise
        if stop - start == 1:
            return [fault(start, error)]
    middle = (start + stop) // 2
    return [*isolated(run, start, middle, fault), *isolated(run, middle, stop, fault)]
