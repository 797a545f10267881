"""The interface between a fit and its workers: one process, or several that share the pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from srrag.core.spec import fingerprint
from srrag.storage.atomic_write import commit_json, read_json


@dataclass(frozen=True, kw_only=True)
class TrainingTask:
    """Fields of every training: the hash of its data, a seed, a device and a folder."""

    places: ClassVar[tuple[str, ...]] = ("device", "state")
    """Fields that say where it is trained, and decide no weight."""

    fingerprint: str
    """Hash of the training data."""
    seed: int
    device: str = "cpu"
    state: str = ""
    """Folder of checkpoints, which every worker sees."""

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def identity(self) -> dict[str, Any]:
        """Everything that decides the weights."""
        return {key: value for key, value in self.plain().items() if key not in self.places}

    def within(self, out: Path) -> Self:
        """The same training, its checkpoints in a folder of `out` that bears the name of it."""
        return replace(self, state=str(out.resolve() / "state" / fingerprint(self.identity())))


def check_settings(
    settings: object,
    *,
    least: Mapping[str, int] | None = None,
    positive: Sequence[str] = (),
    shares: Sequence[str] = (),
    choices: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Raise ValueError that names the setting at fault.

    `least` are bounds of whole numbers, `positive` finite numbers above 0, `shares` lie in [0, 1).
    """
    for name, bound in (least or {}).items():
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < bound:
            raise ValueError(f"train.{name}={value}: a whole number, at least {bound}")
    for name in (*positive, *shares):
        value = getattr(settings, name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name in positive and not (number and 0 < value < math.inf):
            raise ValueError(f"train.{name}={value}: a positive number is needed")
        if name in shares and not (number and 0 <= value < 1):
            raise ValueError(f"train.{name}={value} is outside 0…1")
    for name, known in (choices or {}).items():
        if (value := getattr(settings, name)) not in known:
            raise ValueError(f"train.{name}={value}: one of {', '.join(known)}")


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


RunTraining = Callable[[TrainingTask], dict[str, Any]]
"""Runs a training and returns what it found, as JSON."""


@dataclass(frozen=True)
class Trials:
    """Runs trainings: many tasks that are compared, or one."""

    compare: Callable[[Sequence[TrainingTask]], list[dict[str, Any]]]
    train: RunTraining
