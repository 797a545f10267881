"""Unique titles for things that share a name."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

DIGITS = 6
"""Digits of an id that are shown first; a title has more only where these are another's too."""

Texts: TypeAlias = pa.Array | pa.ChunkedArray


def unique_titles(names: Texts, hints: Texts, ids: Texts) -> pa.Array:
    """Return a unique title for each row: its name, with a suffix if others share it.

    A name that occurs twice gets its hint in brackets. Titles that still collide get the first
    digits of their id, and more digits until all are unique.
    """
    titles, suffix, digits = names, hints, DIGITS
    while True:
        counts = pc.value_counts(titles)
        twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
        if not len(twice):
            return titles.combine_chunks() if isinstance(titles, pa.ChunkedArray) else titles
        longer = pc.binary_join_element_wise(titles, " (", suffix, ")", "")
        titles = pc.if_else(pc.is_in(titles, value_set=twice), longer, titles)
        suffix = pc.utf8_slice_codeunits(ids, 0, digits)
        digits *= 2
