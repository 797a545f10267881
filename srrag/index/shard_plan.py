"""The parts of an index in shards: which an update keeps, which it writes, and what it records.

A shard never changes. An update links the shards whose parts are all unchanged. It writes new
shards of new parts, of the parts whose shard lost a part, and of the smallest shards, so that few
stay small: a shard is rewritten once about as many rows were added as it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq

from srrag.core.spec import place_field
from srrag.core.step import IncrementalBuild, Place, PreviousVersion
from srrag.storage.atomic_write import link_or_copy
from srrag.storage.mapped_table import SHARDS, IndexShard, read_shards
from srrag.storage.mirror import opened

SHARD_ROWS = 500_000
_GROWS = 2
_READERS = 16

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ShardedBuild(IncrementalBuild):
    """An index in shards: built from nothing, or linking unchanged shards of a former version."""

    shard_rows: int = place_field(SHARD_ROWS)


def link_shards(
    shards: Sequence[IndexShard], names: Sequence[str], former: PreviousVersion | None, out: Path
) -> None:
    """Link the files of these names of shards that stand."""
    for shard in shards:
        assert former is not None, "only a former version has shards"
        for name in names:
            link_or_copy(former.folder / shard.file(name), out / shard.file(name))


def part_rows(paths: Sequence[Path]) -> dict[str, int]:
    """Rows of each part, by name, from the ends of the files; rejected rows are counted too."""
    with ThreadPoolExecutor(_READERS) as pool:  # an object store is slow for each read
        counts = list(pool.map(_rows, paths))
    return {path.name: rows for path, rows in zip(paths, counts, strict=True)}


def _rows(path: Path) -> int:
    with opened(path) as file:
        return int(pq.ParquetFile(file).metadata.num_rows)


def regroup(
    rows: Mapping[str, int],
    former: Sequence[IndexShard],
    kept: Collection[str],
    shard_rows: int,
) -> tuple[list[IndexShard], list[IndexShard]]:
    """Return the shards of a former version that stay, and those to write.

    `rows` counts the rows of every part, in order; parts in `kept` are those of the former version.
    """
    names = set(kept)
    standing = sorted(
        (shard for shard in former if names.issuperset(shard.parts)), key=lambda each: each.rows
    )
    held = {part for shard in standing for part in shard.parts}
    loose = {part for part in rows if part not in held}
    size = sum(rows[part] for part in loose)
    while loose and standing and standing[0].rows <= min(_GROWS * size, shard_rows - 1):
        absorbed = standing.pop(0)
        loose.update(absorbed.parts)
        size += absorbed.rows
    first = 1 + max((shard.number for shard in former), default=-1)
    chosen = [part for part in rows if part in loose]
    return sorted(standing, key=lambda each: each.number), [
        IndexShard(number, tuple(parts), sum(rows[part] for part in parts))
        for number, parts in enumerate(cut(chosen, rows.__getitem__, shard_rows), first)
    ]


def cut(parts: Iterable[T], size: Callable[[T], int], shard_rows: int) -> list[list[T]]:
    """Divide parts, in their order; a shard takes parts until it has at least `shard_rows`."""
    shards: list[list[T]] = []
    rows = shard_rows
    for part in parts:
        if rows >= shard_rows:
            shards.append([])
            rows = 0
        shards[-1].append(part)
        rows += size(part)
    return shards


def unchanged(former: PreviousVersion | None, *paths: Path | None) -> bool:
    """Whether these parts, None for what there is not, are those of the former version."""
    return former is not None and all(path in former.kept for path in paths if path is not None)


def former_shards(former: PreviousVersion | None) -> list[IndexShard]:
    """The shards of a former version; none if there is none, or it was not made in shards."""
    if former is None or not (former.folder / SHARDS).exists():
        return []
    return read_shards(former.folder)


def write_each(
    write: Callable[[Any], Any], drafts: Sequence[Any], total: int, shard_rows: int, at: Place
) -> list[Any]:
    """Write shards: up to one shard's rows in this process, more on the workers of the place."""
    if at.spread is not None and total > shard_rows:
        return at.spread(write, drafts)
    return [write(draft) for draft in drafts]
