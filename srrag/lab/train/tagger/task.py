"""Settings of a tagger's training, and the training as plain values for workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from srrag.lab.train.task import TrainingTask
from srrag.model.tagger import Reading


@dataclass(frozen=True, kw_only=True)
class TaggerSettings:
    """How a tagger is trained; the defaults were chosen on held-out crowd abstracts."""

    encoder: str = "minilm"
    """`minilm` (packaged), a local folder or a hub id."""
    revision: str | None = None
    """Commit of a hub model."""
    epochs: int = 2
    learning_rate: float = 3e-4
    """Rises over the first tenth of the steps, then falls to 0."""
    head_factor: float = 10.0
    """How much faster the new classifier learns than the encoder."""
    weight_decay: float = 0.01
    dropout: float = 0.0
    """Two passes over so few texts need none, and without it they are faster."""
    frozen_layers: int = 2
    """Layers from below, with the embeddings, that stay as they are; 0: everything learns."""
    batch_tokens: int = 768
    """Pieces of words a step, over all workers."""
    window: int = 192
    context: int = 24
    precision: str = "float32"
    """Precision of matrix products while training: float32, or bfloat16 if the processor has it."""

    def __post_init__(self) -> None:
        """Raise ValueError that names the setting."""
        for name in ("epochs", "batch_tokens", "window"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"train.{name}={value}: a whole number above 0 is needed")
        if isinstance(self.frozen_layers, bool) or self.frozen_layers < 0:
            raise ValueError(f"train.frozen_layers={self.frozen_layers}: a number from 0 is needed")
        for name in ("dropout", "weight_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"train.{name}={getattr(self, name)} is outside 0…1")
        for name in ("learning_rate", "head_factor"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (number and 0 < value < np.inf):
                raise ValueError(f"train.{name}={value}: a positive number is needed")
        if self.precision not in ("float32", "bfloat16"):
            raise ValueError(f"train.precision={self.precision}: one of float32, bfloat16")
        self.reading()

    def reading(self, lean: Sequence[float] = (0.0, 0.0, 0.0)) -> Reading:
        """How the trained tagger reads texts."""
        return Reading(window=self.window, context=self.context, lean=tuple(lean))


@dataclass(frozen=True, kw_only=True)
class TaggerTask(TrainingTask):
    """One training of a tagger."""

    places = ("crowd", *TrainingTask.places)
    crowd: str
    settings: TaggerSettings
    share: float
    """Share of the abstracts that are held out."""
    split_seed: int
