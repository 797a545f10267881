"""Update a graph with added and removed parts; the rows equal those of a full merge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.graph.grouping import ungroup
from srrag.graph.partition import Side


def revised(former: Path, side: Side, gone: pa.Array, came: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of a table without the mentions of documents `gone` and with those of `came`.

    It reads the former table by row group; unchanged rows pass as they are.
    """
    file = pq.ParquetFile(former, memory_map=True)
    for group in range(file.num_row_groups):
        table = file.read_row_group(group)
        here = came
        if group + 1 < file.num_row_groups:
            within = pc.less_equal(came[side.key], table[side.key][-1])
            here, came = came.filter(within), came.filter(pc.invert(within))
        yield _revise(table, side, gone, here)
    if not file.num_row_groups:
        yield side.group(came)


def _revise(table: pa.Table, side: Side, gone: pa.Array, came: pa.Table) -> pa.Table:
    touched = pc.is_in(table[side.key], came[side.key].combine_chunks())
    if len(gone):
        mentions = table["mentions"].combine_chunks()
        lost = pc.is_in(pc.struct_field(mentions.flatten(), "doc_id"), gone)
        rows = pc.unique(pc.list_parent_indices(mentions).filter(lost))
        touched = pc.or_(touched, pc.is_in(pa.array(range(len(table)), rows.type), rows))
    rest = ungroup(table.filter(touched), side.flat)
    rest = rest.filter(pc.invert(pc.is_in(rest["doc_id"], gone)))
    made = side.group(pa.concat_tables([rest, came]))
    both = pa.concat_tables([table, made]).combine_chunks()
    stays = np.flatnonzero(np.invert(touched))
    rows = pa.array(np.concatenate([stays, np.arange(len(table), len(both))]))
    return both.take(rows.take(pc.sort_indices(both[side.key].take(rows))))
