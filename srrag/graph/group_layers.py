"""A table of groups in layers: an update writes the groups that changed, and links the others.

Each layer after the first names the groups of earlier layers that it replaces or drops. A table
that may hold what a removed document said is written whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.storage.atomic_write import commit_json, read_json
from srrag.storage.links import link_or_copy
from srrag.storage.shards import shard_file

_MOST_LAYERS = 32
_MOST_STALE = 0.25
"""More layers, or a larger share of rows that no longer count: the table is written whole."""

Bools = npt.NDArray[np.bool_]


def write_groups(
    table: pa.Table, key: str, path: Path, former: Path | None = None, **options: Any
) -> int:
    """Write a table whose rows belong to the groups `key`; returns how many groups it wrote.

    `former` is the file of the previous version, None to write the whole table. `options` are
    those of Parquet. Rows of a group keep their order, groups do not.
    """
    layers: dict[int, list[str]] = {} if former is None else _layers(former)
    if former is not None and (held := read_groups(former, key)).schema.equals(table.schema):
        stands = _unchanged(table, held, key)
        changed = table.filter(pc.invert(pc.is_in(table[key], value_set=stands)))
        gone = pc.unique(held.filter(pc.invert(pc.is_in(held[key], value_set=stands)))[key])
        stored = sum(pq.read_metadata(_file(former, number)).num_rows for number in layers)
        stale = stored + len(changed) - len(table)
        if len(layers) < _MOST_LAYERS and stale <= _MOST_STALE * len(table):
            for number in layers:
                link_or_copy(_file(former, number), _file(path, number))
            if len(changed) or len(gone):
                layers[max(layers) + 1] = gone.to_pylist()
                pq.write_table(changed, _file(path, max(layers)), **options)
            _record(path, layers)
            return len(pc.unique(changed[key]))
    pq.write_table(table, path, **options)
    return len(pc.unique(table[key]))


def read_groups(
    path: Path, key: str, columns: Sequence[str] | None = None, filters: Any = None
) -> pa.Table:
    """Read a table that `write_groups` wrote: the rows that count, layer by layer."""
    layers = _layers(path)
    wanted = None if columns is None else [*dict.fromkeys([*columns, key])]
    dropped: list[str] = []
    found = []
    for number in reversed(layers):
        file = _file(path, number)
        rows = pq.read_table(file, columns=wanted, filters=filters, partitioning=None)
        out = pc.is_in(rows[key], value_set=pa.array(dropped, pa.string()))
        found.append(rows.filter(pc.invert(out)) if dropped else rows)
        dropped += layers[number]
    table = pa.concat_tables(reversed(found))
    return table if columns is None else table.select(list(columns))


def _unchanged(table: pa.Table, held: pa.Table, key: str) -> pa.Array:
    """The groups that have the same rows in both tables, in the same order."""
    now, before = _sizes(table, key), _sizes(held, key)
    place = pc.index_in(now["values"], value_set=before["values"])
    same = pc.fill_null(pc.equal(before["counts"].take(place), now["counts"]), False)
    groups = now["values"].filter(same)
    ours, theirs = (_of_groups(each, key, groups) for each in (table, held))
    equal: Bools = np.ones(len(ours), np.bool_)
    for one, other in zip(ours.columns, theirs.columns, strict=True):
        equal &= np.asarray(pc.equal(one, other))
    differ = pc.unique(ours[key].filter(pa.array(~equal)))
    return groups.filter(pc.invert(pc.is_in(groups, value_set=differ)))


def _sizes(table: pa.Table, key: str) -> dict[str, pa.Array]:
    counts = pc.value_counts(table[key])
    return {name: counts.field(name) for name in ("values", "counts")}


def _of_groups(table: pa.Table, key: str, groups: pa.Array) -> pa.Table:
    """The rows of these groups, group by group."""
    place = pc.index_in(table[key], value_set=groups)
    order = np.argsort(np.asarray(pc.fill_null(place, len(groups))), kind="stable")
    return table.take(pa.array(order[: len(table) - place.null_count]))


def _layers(path: Path) -> dict[int, list[str]]:
    """The groups that each layer drops from earlier ones, by the number of the layer."""
    record = _record_of(path)
    return {0: []} if not record.exists() else {int(n): g for n, g in read_json(record).items()}


def _record(path: Path, layers: dict[int, list[str]]) -> None:
    if len(layers) > 1:
        commit_json(_record_of(path), {str(number): gone for number, gone in layers.items()})


def _record_of(path: Path) -> Path:
    return path.with_name(f"{path.stem}.layers.json")


def _file(path: Path, number: int) -> Path:
    return path.with_name(shard_file(path.name, number)) if number else path
