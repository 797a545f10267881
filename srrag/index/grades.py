"""Evidence grades partition every index: A guidelines … E other studies (sr-rag, Methods)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

GRADES = ("A", "B", "C", "D", "E")
UNGRADED = "E"
"""The grade that a window without a grade counts as."""


def counted_as(grades: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Replace missing grades by UNGRADED."""
    return pc.if_else(pc.is_in(grades, value_set=pa.array(GRADES)), grades, UNGRADED)


def check_grades(grades: Sequence[str]) -> None:
    """Raise ValueError that names an unknown grade."""
    for grade in grades:
        if grade not in GRADES:
            raise ValueError(f"grade {grade!r}: the grades are {', '.join(GRADES)}")
