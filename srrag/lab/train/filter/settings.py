"""Settings of a filter's training, and a training as plain values for any worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from srrag.lab.train.group import TrainingTask, check_settings
from srrag.model.filter import Base
from srrag.model.pair_causal import LoRA


@dataclass(frozen=True, kw_only=True)
class FilterSettings:
    """How a model learns from pairs; DEFAULTS holds the numbers for each kind of model."""

    learning_rate: float
    """Rises over the first tenth of the steps, then falls to 0."""
    batch: int
    """Pairs a step, over all workers."""
    epochs: int
    weight_decay: float = 0.01
    yes_weight: float = 1.0
    """Weight in the loss of a pair with evidence; other pairs weigh 1."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of matrix products while training; the weights keep their own precision."""
    checkpointing: bool = False
    """Recompute activations in the backward pass instead of keeping them (causal models)."""
    shard: bool = False
    """Shard weights, gradients and optimizer state over the workers (FSDP)."""

    def __post_init__(self) -> None:
        """Raise ValueError that names the setting."""
        check_settings(
            self,
            least={"epochs": 1, "batch": 1},
            positive=("learning_rate", "yes_weight"),
            shares=("weight_decay",),
            choices={"precision": ("float32", "bfloat16")},
        )


DEFAULTS: dict[str, dict[str, Any]] = {
    "encoder": {"learning_rate": 5e-5, "batch": 16, "epochs": 2},
    # Rethinking RAG in medicine, section 4.2.
    "causal": {"learning_rate": 2e-6, "batch": 8, "epochs": 3},
    # LoRA has few new weights, which start without effect, so it needs larger steps.
    "lora": {"learning_rate": 1e-4, "batch": 8, "epochs": 3},
}
"""Default settings by kind of model; `lora` is a causal model with low-rank updates."""


@dataclass(frozen=True, kw_only=True)
class FilterTask(TrainingTask):
    """One training: which pairs of a file, of what model, how, and from which seed.

    `fold` says which of `folds` is held out; -1 holds the share `share` out, which may be 0.
    """

    places = ("pairs", "other", *TrainingTask.places)
    pairs: str
    other: str | None
    """A test file: training leaves out its questions, matched word for word."""
    base: Base
    settings: FilterSettings
    folds: int
    fold: int
    share: float
    split_seed: int


def task_of(plain: dict[str, Any]) -> FilterTask:
    """The task that `plain` rendered."""
    base = dict(plain["base"])
    base["lora"] = base["lora"] and LoRA(**base["lora"])
    settings = FilterSettings(**plain["settings"])
    return FilterTask(**{**plain, "base": Base(**base), "settings": settings})
