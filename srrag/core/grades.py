"""Evidence grades, which partition every index (sr-rag, Methods)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

STUDIES = {
    "A": "guideline or consensus",
    "B": "systematic review or meta-analysis",
    "C": "randomised trial",
    "D": "cohort study",
    "E": "other study",
}
"""What studies each grade holds, for readers."""
GRADES = tuple(STUDIES)
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
