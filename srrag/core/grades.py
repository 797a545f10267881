"""Evidence grades, which partition every index (sr-rag, Methods)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
_MANY = {
    "A": "guidelines or consensus papers",
    "B": "systematic reviews or meta-analyses",
    "D": "cohort studies",
    "E": "other studies",
}
GRADES = tuple(STUDIES)
UNGRADED = "E"
"""The grade that a window without a grade counts as."""


def counted_as(grades: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Replace missing grades by UNGRADED."""
    return pc.if_else(pc.is_in(grades, value_set=pa.array(GRADES)), grades, UNGRADED)


def kinds_of(counts: Mapping[str, int]) -> str:
    """Say how many studies of each grade: "2 randomised trials and 1 cohort study"."""
    graded_first = sorted(counts, key=lambda grade: (not grade, grade))
    return joined(f"{counts[grade]} {_kind(grade, counts[grade])}" for grade in graded_first)


def joined(parts: Iterable[str]) -> str:
    """Parts as in a sentence: "a, b and c"."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def _kind(grade: str, number: int) -> str:
    if grade not in STUDIES:
        return "of unknown kind"
    return STUDIES[grade] if number == 1 else _MANY.get(grade, f"{STUDIES[grade]}s")


def check_grades(grades: Sequence[str]) -> None:
    """Raise ValueError that names an unknown grade."""
    for grade in grades:
        if grade not in GRADES:
            raise ValueError(f"grade {grade!r}: the grades are {', '.join(GRADES)}")
