"""One training as plain values, which travel to any worker."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class TrainingTask:
    """What every training has: the hash of what it learns from, a seed, a device and a folder."""

    places: ClassVar[tuple[str, ...]] = ("device", "state")
    """Fields that say where it is trained, and decide no weight."""

    fingerprint: str
    """Of the content that it learns from."""
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
