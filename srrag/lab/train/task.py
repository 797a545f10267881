"""One training as plain values, which any worker can receive."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar


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
