"""Group mentions into the rows of the graph, the same ones for mentions in any order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.schema import EDGES, ENTITIES

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Runs:
    """Rows sorted by id, then by mention: `order` sorts them, `starts` is where each id begins."""

    ids: Ints
    order: Ints
    starts: Ints

    @property
    def firsts(self) -> pa.Array:
        """The first row of each id."""
        return pa.array(self.order[self.starts])

    def mentions(self, rows: pa.Table, mention: pa.StructType) -> pa.Array:
        """Return the list of mentions of each id."""
        order = pa.array(self.order)
        fields = [rows[field.name].combine_chunks().take(order) for field in mention]
        offsets = pa.array([*self.starts.tolist(), len(self.order)], pa.int32())
        struct = pa.StructArray.from_arrays(fields, fields=list(mention))
        return pa.ListArray.from_arrays(offsets, struct)


def group_ends(ends: pa.Table) -> pa.Table:
    """Group mentions into ENTITIES, sorted by id; mentions by document, unit and place.

    An entity's name is its most frequent form; ties go to the shortest, then to the first in code
    point order.
    """
    names, forms = _ranks(ends["name"])
    runs = _runs(ends, "entity_id", names)
    columns = [
        ends["entity_id"].combine_chunks().take(runs.firsts),
        forms.take(pa.array(_commonest(runs.ids, names, pc.utf8_length(forms).to_numpy()))),
        ends["type"].combine_chunks().take(runs.firsts),
        runs.mentions(ends, ENTITIES.field("mentions").type.value_type),
    ]
    return pa.table(columns, schema=ENTITIES)


def group_links(links: pa.Table) -> pa.Table:
    """Group mentions into EDGES, sorted by id; the confidence is the maximum over mentions."""
    confidence = links["confidence"].to_numpy()
    runs = _runs(links, "edge_id", confidence)
    best = np.maximum.reduceat(confidence[runs.order], runs.starts) if len(links) else confidence
    keep = ("edge_id", "kind", "head_id", "relation", "tail_id")
    columns = [
        *(links[name].combine_chunks().take(runs.firsts) for name in keep),
        pa.array(best, pa.float32()),
        runs.mentions(links, EDGES.field("mentions").type.value_type),
    ]
    return pa.table(columns, schema=EDGES)


def _runs(rows: pa.Table, key: str, own: npt.NDArray[np.generic]) -> Runs:
    ids, _ = _ranks(rows[key])
    documents, _ = _ranks(rows["doc_id"])
    units, _ = _ranks(rows["unit_id"])
    start, end = (rows[name].to_numpy() for name in ("char_start", "char_end"))
    order = np.lexsort((own, end, start, units, documents, ids)).astype(np.int64)
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1)).astype(np.int64)
    return Runs(ids, order, starts)


def _ranks(column: pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    """Return the rank of each row's value among the sorted distinct values, and these values."""
    coded = pc.dictionary_encode(column.combine_chunks())
    order = pc.sort_indices(coded.dictionary)
    ranks = np.empty(len(order), np.int64)
    ranks[order.to_numpy()] = np.arange(len(order))
    return ranks[coded.indices.to_numpy()], coded.dictionary.take(order)


def _commonest(ids: Ints, names: Ints, lengths: npt.NDArray[np.generic]) -> Ints:
    """Return each id's most frequent name, in order; ties go to the shortest, then the first."""
    width = len(lengths) or 1
    pairs, counts = np.unique(ids * width + names, return_counts=True)
    owner, name = np.divmod(pairs, width)
    order = np.lexsort((name, lengths[name], -counts, owner))
    chosen = np.flatnonzero(np.diff(owner[order], prepend=-1))
    return np.asarray(name[order][chosen], np.int64)
