"""The interface between a fit and its workers: one process, or several that share the pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from srrag.storage.atomic_write import commit_json, read_json

Floats = npt.NDArray[np.float64]


class Group(Protocol):
    """The workers of one fit, seen from one of them."""

    @property
    def rank(self) -> int:
        """The number of this worker, from 0."""
        ...

    @property
    def size(self) -> int:
        """How many workers there are."""
        ...

    def total(self, values: Floats) -> Floats:
        """Add an array over the workers; all get the same sum."""
        ...

    def restore(self) -> dict[str, Any] | None:
        """The last saved state, or None on the first attempt."""
        ...

    def report(self, metrics: dict[str, Any], state: dict[str, Any]) -> None:
        """Save a state (as JSON) with the figures reached; every worker calls it together."""
        ...


class Alone:
    """A group of one in this process; it keeps its state in a JSON file, if any."""

    rank = 0
    size = 1

    def __init__(self, state: Path | None = None) -> None:
        """Bind the file."""
        self.state = state

    def total(self, values: Floats) -> Floats:
        """Return the values; there is nothing to add."""
        return values

    def restore(self) -> dict[str, Any] | None:
        """Read the file; raises ValueError that names it if it is no JSON."""
        if self.state is None or not self.state.exists():
            return None
        found: dict[str, Any] = read_json(self.state)
        return found

    def report(self, metrics: dict[str, Any], state: dict[str, Any]) -> None:
        """Write the file atomically."""
        if self.state is not None:
            commit_json(self.state, state)
