"""The loop of every gradient training: restore, step, save and report; a subclass has the loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import Parameter

from srrag.lab.train.checkpoint import Checkpoints
from srrag.lab.train.group import Group, TrainingTask


class Training(ABC):
    """The state of one training on one worker; all workers call every method together.

    A leg, an epoch unless the subclass says otherwise, ends with a checkpoint, a point of the curve
    and the state by which a killed run resumes.
    """

    steps: int
    """The number of steps of the whole training; a subclass sets it."""
    adds_gradients = True
    """Whether gradients have to be added over the workers; sharded weights do it themselves."""

    def __init__(
        self,
        task: TrainingTask,
        group: Group,
        weights: Mapping[str, Parameter],
        optimizer: torch.optim.AdamW,
        files: Checkpoints,
    ) -> None:
        """Bind what is trained; `weights` are saved, and those that need a gradient move.

        A parameter group of the optimizer may have a `factor` of its own on the learning rate.
        """
        self.task, self.group, self.weights, self.files = task, group, weights, files
        self.optimizer = optimizer
        self.parameters = [each for each in weights.values() if each.requires_grad]
        self.rate = float(optimizer.defaults["lr"])
        self.done, self.curve, self.more = 0, list[dict[str, float]](), dict[str, Any]()

    @abstractmethod
    def leg(self) -> dict[str, float]:
        """Train the next leg; returns its point of the curve, and may fill `more`."""

    def run(self) -> dict[str, Any]:
        """Train the legs that are missing.

        The result names the file of the weights and holds the curve, and what `more` says.
        """
        if (saved := self.group.restore()) is not None:
            self.done, self.curve, self.more = saved["done"], saved["curve"], saved["more"]
            self.files.restore(saved["file"], self.weights, self.optimizer)
        while self.done < self.files.epochs:
            point = self.leg()
            self.done += 1
            self.curve.append(point)
            write = self.group.rank == 0
            file = self.files.save(self.done, self.weights, self.optimizer, write=write)
            state = {"done": self.done, "curve": self.curve, "more": self.more}
            self.group.report(point, {**state, "file": file})
        weights = self.files.file(self.done).name
        return {"weights": weights, "curve": self.curve, **self.more}

    def move(self, step: int) -> None:
        """Move the weights along the gradients of all workers, at the rate of the step."""
        if self.adds_gradients:
            self._add_gradients()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * group.get("factor", 1.0) * pace(step, self.steps)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)

    def fill_gradients(self) -> None:
        """Give a gradient of 0 to parameters without one, such as those that no text here needs."""
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

    def _add_gradients(self) -> None:
        if self.group.size == 1:
            return
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        summed = torch.from_numpy(self.group.total(flat.cpu().double().numpy()))
        sizes = [gradient.numel() for gradient in gradients]
        for gradient, part in zip(gradients, torch.split(summed, sizes), strict=True):
            gradient.copy_(part.view_as(gradient))


class EpochTraining(Training):
    """A training whose leg is a pass over all examples; `plan` and `step` say of which batches."""

    @abstractmethod
    def plan(self, epoch: int) -> Sequence[Any]:
        """The batches of an epoch, the same on every worker; epochs have equally many."""

    @abstractmethod
    def step(self, batch: Any, number: int) -> tuple[float, int]:
        """Take a step; returns this worker's summed loss, and the items of the whole batch."""

    def epoch(self) -> float:
        """Pass over all examples; returns the mean loss of an item."""
        # Dropout is seeded by epoch, so that a resumed run equals an uninterrupted one.
        key = np.random.SeedSequence([self.task.seed, self.done, self.group.rank])
        torch.manual_seed(int(key.generate_state(1)[0]))
        plan, total, items = self.plan(self.done), 0.0, 0
        for number, batch in enumerate(plan):
            loss, count = self.step(batch, self.done * len(plan) + number)
            total, items = total + loss, items + count
        return float(self.group.total(np.array([total]))[0]) / items


def pace(step: int, steps: int) -> float:
    """Share of the learning rate at a step: rises over the first tenth, then falls to 0."""
    rise = max(1.0, 0.1 * steps)
    return min((step + 1) / rise, (steps - step) / max(1.0, steps - rise))
