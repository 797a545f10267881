"""Group mentions into the rows of the graph, and ungroup them.

Grouping is commutative and associative: group(a + b) == group(ungroup(group(a)) + b), row for row.
So mentions can come in any order and batches, and an update only touches the rows that change.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.schema import EDGES, ENTITIES

_MENTION = ("doc_id", "unit_id", "char_start", "char_end")


def group_ends(ends: pa.Table) -> pa.Table:
    """Group mentions into ENTITIES, sorted by id; mentions by document, unit and place.

    An entity's name is its most frequent form; ties go to the shortest, then to the first in code
    point order.
    """
    rows, starts = _sorted(ends, "entity_id", "name")
    forms = rows.group_by(["entity_id", "name"]).aggregate([([], "count_all")])
    forms = forms.append_column("length", pc.utf8_length(forms["name"]))
    order = [("entity_id", "ascending"), ("count_all", "descending"), ("length", "ascending")]
    forms = forms.sort_by([*order, ("name", "ascending")])
    columns = [
        rows["entity_id"].take(starts),
        forms["name"].take(_starts(forms["entity_id"])),
        rows["type"].take(starts),
        _mentions(rows, starts, ENTITIES),
    ]
    return pa.table(columns, schema=ENTITIES)


def group_links(links: pa.Table) -> pa.Table:
    """Group mentions into EDGES, sorted by id; the confidence is the maximum over mentions."""
    rows, starts = _sorted(links, "edge_id", "confidence")
    confidence = rows["confidence"].to_numpy()
    best = np.maximum.reduceat(confidence, starts.to_numpy()) if len(links) else confidence
    keep = ("edge_id", "kind", "head_id", "relation", "tail_id")
    columns = [
        *(rows[name].take(starts) for name in keep),
        pa.array(best, pa.float32()),
        _mentions(rows, starts, EDGES),
    ]
    return pa.table(columns, schema=EDGES)


def ungroup(table: pa.Table, flat: pa.Schema) -> pa.Table:
    """Invert the grouping: one row for each mention, with the columns of ENDS or LINKS."""
    mentions = table["mentions"].combine_chunks()
    rows = pc.list_parent_indices(mentions)
    inner = mentions.flatten()
    own = {field.name for field in inner.type}
    columns = [
        pc.struct_field(inner, name) if name in own else table[name].combine_chunks().take(rows)
        for name in flat.names
    ]
    return pa.table(columns, schema=flat)


def _sorted(rows: pa.Table, key: str, own: str) -> tuple[pa.Table, pa.Array]:
    """Sort rows by id, then by mention; where each id begins."""
    rows = rows.sort_by([(name, "ascending") for name in (key, *_MENTION, own)])
    return rows, _starts(rows[key])


def _starts(ids: pa.ChunkedArray) -> pa.Array:
    changes: npt.NDArray[np.bool_] = np.asarray(pc.not_equal(ids[1:], ids[:-1]))
    return pa.array(np.flatnonzero(np.append(len(ids) > 0, changes)))


def _mentions(rows: pa.Table, starts: pa.Array, schema: pa.Schema) -> pa.Array:
    """The list of mentions of each id."""
    mention = schema.field("mentions").type.value_type
    fields = [rows[field.name].combine_chunks() for field in mention]
    offsets = pa.array([*starts.to_pylist(), len(rows)], pa.int32())
    struct = pa.StructArray.from_arrays(fields, fields=list(mention))
    return pa.ListArray.from_arrays(offsets, struct)
