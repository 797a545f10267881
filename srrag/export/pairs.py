"""Many-to-many links as sorted integer pairs, and the lists of ids that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.export.graph import Ints


@dataclass(frozen=True)
class GroupedPairs:
    """Distinct pairs (group, item), sorted."""

    groups: Ints
    items: Ints

    def lists(self, start: int, stop: int, names: pa.Array) -> pa.ListArray:
        """For each group from `start` to `stop`, the names of its items."""
        groups = np.arange(start, stop + 1)
        offsets = np.searchsorted(self.groups, groups)
        taken = names.take(pa.array(self.items[offsets[0] : offsets[-1]]))
        return pa.ListArray.from_arrays(pa.array((offsets - offsets[0]).astype(np.int32)), taken)

    def swapped(self) -> GroupedPairs:
        """Each item with its groups."""
        return distinct(self.items, self.groups)

    def grouped_by(self, group_of: Ints) -> GroupedPairs:
        """The same items under the groups of their groups; a group of -1 is left out."""
        groups = group_of[self.groups]
        return distinct(groups[groups >= 0], self.items[groups >= 0])


def distinct(groups: Ints, items: Ints) -> GroupedPairs:
    """Sort pairs and drop duplicates; both arrays have shape (pairs,)."""
    width = int(items.max(initial=0)) + 1
    keys = np.unique(groups.astype(np.int64) * width + items)
    return GroupedPairs(keys // width, keys % width)


def mentioned(rows: Ints, mentions: pa.ChunkedArray, unit_ids: pa.Array) -> tuple[Ints, Ints]:
    """Row and unit of every mention; raises ValueError for a unit that is not there."""
    lists = mentions.combine_chunks()
    parents = pc.list_parent_indices(lists).to_numpy()
    named = pc.struct_field(pc.list_flatten(lists), "unit_id")
    found = pc.index_in(named, value_set=unit_ids)
    if found.null_count:
        absent = named[pc.index(found.is_null(), True).as_py()]
        raise ValueError(f"a mention names unit {absent}, whose text is not in this build")
    return rows[parents], found.to_numpy().astype(np.int64)


def joined(pieces: Sequence[tuple[Ints, Ints]]) -> GroupedPairs:
    """The pairs of all pieces."""
    groups, items = zip(*pieces, strict=True)
    return distinct(np.concatenate(groups), np.concatenate(items))
