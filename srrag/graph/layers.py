"""A table of the graph in layers: earlier merged mentions, and later ones.

An update that only adds writes the mentions of the added parts as a layer of its own, grouped like
the first, and links the others. Grouping is associative, so the rows of all layers, grouped again,
are those of one merge; readers get these. A table that loses a document is written whole, so no
layer keeps a mention of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.graph.grouping import ungroup
from srrag.graph.incremental_merge import revised
from srrag.graph.partition import SIDES
from srrag.storage.shards import SHARDS, IndexShard, read_shards, shard_file

_BATCH_ROWS = 1 << 16


def layer_path(table: Path, number: int) -> Path:
    """The file of a layer of a table; the first is the table's own."""
    return table.with_name(shard_file(table.name, number)) if number else table


def layers_of(folder: Path) -> list[IndexShard]:
    """The layers of a graph, the first and largest first; `rows` counts their facts."""
    if (folder / SHARDS).exists():
        return read_shards(folder)
    facts = pq.read_table(folder / "sources.parquet", columns=["facts"])["facts"]
    return [IndexShard(0, (), pc.sum(facts, min_count=0).as_py())]


def read_rows(table: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a table of the graph, `entities.parquet` or `edges.parquet`, by the order of its ids."""
    if len(_files(table)) == 1:
        with pq.ParquetFile(table) as file:
            return file.read(columns=columns)
    return pa.concat_tables(row_batches(table, columns))


def row_batches(
    table: Path, columns: Sequence[str] | None = None, rows: int = _BATCH_ROWS
) -> Iterator[pa.Table]:
    """Yield a table of the graph by the order of its ids, up to so many rows at a time."""
    first, *others = _files(table)
    if not others:
        with pq.ParquetFile(first) as file:
            for batch in file.iter_batches(rows, columns=columns):
                yield pa.Table.from_batches([batch])
        return
    side = SIDES[table.stem]
    wanted = [name.partition(".")[0] for name in columns or side.rows.names]
    came = pa.concat_tables([ungroup(pq.read_table(each), side.flat) for each in others])
    for merged in revised(first, side, pa.array([], pa.string()), came):
        for start in range(0, len(merged), rows):
            yield merged.select(wanted).slice(start, rows)


def count_rows(table: Path) -> int:
    """Count the rows of a table of the graph, each id once."""
    first, *others = _files(table)
    key = SIDES[table.stem].key
    with pq.ParquetFile(first) as file:
        total = int(file.metadata.num_rows)
        if not others:
            return total
        ids = [pq.read_table(each, columns=[key])[key] for each in others]
        added = pc.unique(pa.chunked_array([chunk for each in ids for chunk in each.chunks]))
        for batch in file.iter_batches(_BATCH_ROWS, columns=[key]):
            total -= pc.is_in(batch.column(0), value_set=added).true_count
    return total + len(added)


def _files(table: Path) -> list[Path]:
    """The files of a table's layers, the largest first."""
    if not (table.parent / SHARDS).exists():
        return [table]
    return [layer_path(table, layer.number) for layer in read_shards(table.parent)]
