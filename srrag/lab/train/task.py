"""One training as plain values, which any worker can receive."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from srrag.core.spec import fingerprint


@dataclass(frozen=True, kw_only=True)
class TrainingTask:
    """Fields of every training: the hash of its data, a seed, a device and a folder."""

    places: ClassVar[tuple[str, ...]] = ("device", "state")
    """Fields that say where it is trained, and decide no weight."""

    fingerprint: str
    """Hash of the training data."""
    seed: int
    device: str
    state: str
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
