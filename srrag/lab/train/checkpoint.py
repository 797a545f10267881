"""Checkpoints of a training after each epoch, or so many steps: weights and optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn import Parameter

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

        Workers that hold parts of the weights call it together, and one of them writes.
        """
        tensors = {f"{WEIGHT}{name}": whole(p.detach()) for name, p in weights.items()}
        if epoch < self.epochs:
            tensors |= _moments(weights, optimizer)
        file = self.file(epoch)
        if write:
            contiguous = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
            commit(file, lambda path: save_file(contiguous, path))
            kept = 0 if epoch == self.epochs else 1
            for old in range(epoch - kept):
                self.file(old).unlink(missing_ok=True)
        return file.name

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
