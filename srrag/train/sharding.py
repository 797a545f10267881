"""Weights parted over workers by PyTorch's own FSDP, and whole again for a file."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor


def shard(module: nn.Module) -> None:
    """Part a module's weights over the workers of the process group, a transformer block at a time.

    Raises ValueError where there is no group to part them over.
    """
    if not torch.distributed.is_initialized():
        raise ValueError("train.shard=true: weights are parted over workers; set train.workers")
    from torch.distributed.fsdp import fully_shard

    stacks = [child for child in module.modules() if isinstance(child, nn.ModuleList)]
    for block in [block for stack in stacks for block in stack]:
        fully_shard(block)
    fully_shard(module)


def whole(tensor: Tensor) -> Tensor:
    """A tensor as one worker alone would have it; all workers ask together."""
    if not isinstance(tensor, DTensor):
        return tensor
    found: Tensor = tensor.full_tensor()
    return found


def put(target: Tensor, value: Tensor) -> None:
    """Copy a whole tensor into one that may be parted."""
    with torch.no_grad():
        if isinstance(target, DTensor):
            placed = value.to(target.device, target.dtype)
            value = distribute_tensor(placed, target.device_mesh, target.placements)
        target.copy_(value)
