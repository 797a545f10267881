from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from srrag.lab.train.group import Alone, TrainingTask
from srrag.lab.train.loop import Checkpoints, Training, trained_weights
from tests.together import Killed

EPOCHS = 3


class Counting(Training):
    """Moves one weight, a step an epoch."""

    steps = EPOCHS

    def leg(self) -> dict[str, float]:
        self.weights["w"].grad = torch.ones(2)
        self.move(self.done)
        return {"epoch": self.done + 1}


class DyingBefore(Alone):
    """A worker that is killed when the last checkpoint is written, and its state is not."""

    def report(self, metrics: dict[str, Any], state: dict[str, Any]) -> None:
        if state["done"] == EPOCHS:
            raise Killed
        super().report(metrics, state)


def training(folder: Path, kind: type[Alone] = Alone) -> Counting:
    weight = torch.nn.Parameter(torch.ones(2))
    task = TrainingTask(fingerprint="f", seed=1, state=str(folder))
    optimizer = torch.optim.AdamW([weight], lr=0.1)
    files = Checkpoints(folder, EPOCHS)
    return Counting(task, kind(folder / "state.json"), {"w": weight}, optimizer, files)


def test_a_training_killed_as_it_ends_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    undisturbed = training(whole).run()
    with pytest.raises(Killed):
        training(cut, DyingBefore).run()
    assert training(cut).run() == undisturbed
    left, right = (trained_weights(folder / undisturbed["weights"]) for folder in (whole, cut))
    assert torch.equal(left["w"], right["w"])
    assert [path.name for path in cut.glob("*.safetensors")] == [undisturbed["weights"]]
