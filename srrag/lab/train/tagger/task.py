"""Settings of a tagger's training, and the training as plain values for workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from srrag.lab.train.group import TrainingTask, check_settings
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
        check_settings(
            self,
            least={"epochs": 1, "batch_tokens": 1, "window": 1, "frozen_layers": 0},
            positive=("learning_rate", "head_factor"),
            shares=("dropout", "weight_decay"),
            choices={"precision": ("float32", "bfloat16")},
        )
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
