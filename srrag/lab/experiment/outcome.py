"""The outcome of a configuration in a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from srrag.lab.measure.scores import Scores
from srrag.llm.completion import Usage


@dataclass(frozen=True)
class Outcome:
    """The outcome of a configuration: its scores, the judgements, and the judges' usage."""

    scores: list[Scores]
    judgements: pa.Table | None = None
    missing: Mapping[str, int] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    broken: Sequence[str] = ()
    """Judges that failed wherever they were asked."""
    apart: Sequence[Scores] = ()
    """Scores of questions that a learned part saw, and that do not count in `scores`."""
    cases: pa.Table | None = None
    """The CASES that were judged, of which controls are made."""
