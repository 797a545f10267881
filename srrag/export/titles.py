"""Titles that tell things of the same name apart."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

DIGITS = 6
"""Digits of an id that are shown first; a title has more only where these are another's too."""

Texts: TypeAlias = pa.Array | pa.ChunkedArray


def unique_titles(names: Texts, hints: Texts, ids: Texts) -> pa.Array:
    """A title for each row that no other has: its name, and what it takes to tell it apart.

    Every name that occurs twice gets its hint in brackets; what still occurs twice gets the first
    digits of its id, more and more of them, since a name may look like a title.
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
