"""The loop of every gradient training, and its checkpoints; a subclass has the loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn import Parameter

from srrag.lab.train.group import Group, TrainingTask
from srrag.storage.atomic_write import commit


def shard(module: nn.Module) -> None:
    """Shard a module's weights over the process group, one transformer block at a time.

    Raises ValueError if there is no process group.
    """
    if not torch.distributed.is_initialized():
        raise ValueError("train.shard=true: weights are parted over workers; set train.workers")
    from torch.distributed.fsdp import fully_shard

    stacks = [child for child in module.modules() if isinstance(child, nn.ModuleList)]
    for block in [block for stack in stacks for block in stack]:
        fully_shard(block)
    fully_shard(module)


def whole(tensor: Tensor) -> Tensor:
    """Gather a tensor from its shards; all workers call it together."""
    if not isinstance(tensor, DTensor):
        return tensor
    found: Tensor = tensor.full_tensor()
    return found


def put(target: Tensor, value: Tensor) -> None:
    """Copy a whole tensor into one that may be sharded."""
    with torch.no_grad():
        if isinstance(target, DTensor):
            placed = value.to(target.device, target.dtype)
            value = distribute_tensor(placed, target.device_mesh, target.placements)
        target.copy_(value)


WEIGHT = "weight."
_STEP = "step"
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoint files of one training, in a folder that every worker sees."""

    folder: Path
    epochs: int
    """Number of epochs; the last checkpoint holds weights without the optimizer's state."""
    unit: str = "epoch"
    """The unit in the names of the files; a short training saves more often."""

    def file(self, epoch: int) -> Path:
        """The file of an epoch, counted from 1."""
        return self.folder / f"{self.unit}-{epoch}.safetensors"

    def save(
        self,
        epoch: int,
        weights: Mapping[str, Parameter],
        optimizer: torch.optim.AdamW,
        *,
        write: bool,
    ) -> str:
        """Write an epoch's file if `write`, and drop all but the one before; returns its name.

        The one before stays, because the saved state names it until this epoch is reported. Workers
        that hold parts of the weights call it together, and one of them writes.
        """
        tensors = {f"{WEIGHT}{name}": whole(p.detach()) for name, p in weights.items()}
        if epoch < self.epochs:
            tensors |= _moments(weights, optimizer)
        file = self.file(epoch)
        if write:
            contiguous = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
            commit(file, lambda path: save_file(contiguous, path))
            self.drop_before(epoch - 1)
        return file.name

    def drop_before(self, epoch: int) -> None:
        """Drop the files of earlier epochs."""
        for old in range(epoch):
            self.file(old).unlink(missing_ok=True)

    def restore(
        self, name: str, weights: Mapping[str, Parameter], optimizer: torch.optim.AdamW
    ) -> None:
        """Load a checkpoint into the weights and the optimizer."""
        tensors = load_file(self.folder / name)
        fused = optimizer.defaults.get("fused")  # which counts its steps where the weights are
        for key, parameter in weights.items():
            put(parameter.data, tensors[f"{WEIGHT}{key}"])
            if f"{_MOMENTS[0]}.{key}" in tensors:
                state = {moment: torch.zeros_like(parameter) for moment in _MOMENTS}
                for moment, value in state.items():
                    put(value, tensors[f"{moment}.{key}"])
                step = tensors[_STEP].to(parameter.device if fused else "cpu", copy=True)
                optimizer.state[parameter] = {**state, _STEP: step}


def trained_weights(path: Path) -> dict[str, Tensor]:
    """The parameters in an epoch's file by name."""
    found = load_file(path)
    return {n.removeprefix(WEIGHT): t for n, t in found.items() if n.startswith(WEIGHT)}


def _moments(weights: Mapping[str, Parameter], optimizer: torch.optim.AdamW) -> dict[str, Tensor]:
    """The optimizer's state of the parameters that it has moved."""
    tensors: dict[str, Tensor] = {}
    for name, parameter in weights.items():
        if state := optimizer.state.get(parameter):
            tensors |= {f"{moment}.{name}": whole(state[moment]) for moment in _MOMENTS}
            tensors[_STEP] = state[_STEP]
    return tensors


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
        if self.group.rank == 0:
            self.files.drop_before(self.done)
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
    """A training whose leg is a pass over all examples; `plan` and `step` say of which batches.

    A subclass calls `count_steps` as soon as it can plan.
    """

    @abstractmethod
    def plan(self, epoch: int) -> Sequence[Any]:
        """The batches of an epoch, the same on every worker."""

    @abstractmethod
    def step(self, batch: Any, number: int) -> tuple[float, int]:
        """Take a step; returns this worker's summed loss, and the items of the whole batch."""

    def count_steps(self) -> None:
        """Count the steps before each epoch, and in all; epochs may have unequally many."""
        sizes = [len(self.plan(epoch)) for epoch in range(self.files.epochs)]
        self.starts = [0, *accumulate(sizes)]
        self.steps = self.starts[-1]

    def epoch(self) -> float:
        """Pass over all examples; returns the mean loss of an item."""
        # Dropout is seeded by epoch, so that a resumed run equals an uninterrupted one.
        key = np.random.SeedSequence([self.task.seed, self.done, self.group.rank])
        torch.manual_seed(int(key.generate_state(1)[0]))
        plan, total, items = self.plan(self.done), 0.0, 0
        for number, batch in enumerate(plan):
            loss, count = self.step(batch, self.starts[self.done] + number)
            total, items = total + loss, items + count
        return float(self.group.total(np.array([total]))[0]) / items


def pace(step: int, steps: int) -> float:
    """Share of the learning rate at a step: rises over the first tenth, then falls to 0."""
    rise = max(1.0, 0.1 * steps)
    return min((step + 1) / rise, (steps - step) / max(1.0, steps - rise))
