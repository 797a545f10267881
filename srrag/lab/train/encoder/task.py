"""Settings of an encoder's training, and the training as plain values for workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from srrag.lab.train.group import TrainingTask, check_settings
from srrag.model.encoder import Encoder


@dataclass(frozen=True, kw_only=True)
class EncoderSettings:
    """How an encoder learns from questions with gold passages."""

    learning_rate: float = 3e-5
    """Rises over the first tenth of the steps, then falls to 0."""
    epochs: int = 1
    batch: int = 32
    """Questions a step, over all workers; each has the others' passages as negatives."""
    negatives: int = 1
    """Mined passages a question and step; 0: those of the other questions alone."""
    late: float = 0.5
    """Share of MaxSim in the loss; the rest is the cosine of the pooled vectors."""
    temperature: float = 0.05
    """What cosine and mean MaxSim are divided by before the softmax."""
    weight_decay: float = 0.01
    max_tokens: int = 256
    """Longer texts are cut here while training."""
    checkpoint_steps: int = 10
    """Steps between two checkpoints."""

    def __post_init__(self) -> None:
        """Raise ValueError that names the setting."""
        least = {"epochs": 1, "batch": 2, "negatives": 0, "max_tokens": 4, "checkpoint_steps": 1}
        positive = ("learning_rate", "temperature")
        check_settings(self, least=least, positive=positive, shares=("weight_decay",))
        if not 0 <= self.late <= 1:
            raise ValueError(f"train.late={self.late} is outside 0…1")


@dataclass(frozen=True, kw_only=True)
class EncoderTask(TrainingTask):
    """One training of an encoder."""

    places = ("material", *TrainingTask.places)
    material: str
    """The file of questions and passages (`GoldMaterial`)."""
    base: Encoder
    settings: EncoderSettings


def task_of(plain: dict[str, Any]) -> EncoderTask:
    """The task that `plain` rendered."""
    base, settings = Encoder(**plain["base"]), EncoderSettings(**plain["settings"])
    return EncoderTask(**{**plain, "base": base, "settings": settings})
