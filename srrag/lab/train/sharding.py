"""Shard weights over workers with PyTorch's FSDP, and gather them for a file."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor


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
