"""Shared parts of a training step: learning-rate schedule, and gradients summed over workers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch.nn import Parameter

from srrag.lab.train.group import Group


def pace(step: int, steps: int) -> float:
    """Share of the learning rate at a step: rises over the first tenth, then falls to 0."""
    rise = max(1.0, 0.1 * steps)
    return min((step + 1) / rise, (steps - step) / max(1.0, steps - rise))


def add_gradients(parameters: Iterable[Parameter], group: Group) -> None:
    """Add the gradients of all workers, who call it together."""
    if group.size == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    summed = torch.from_numpy(group.total(flat.cpu().double().numpy()))
    sizes = [gradient.numel() for gradient in gradients]
    for gradient, part in zip(gradients, torch.split(summed, sizes), strict=True):
        gradient.copy_(part.view_as(gradient))


def seed_epoch(seed: int, epoch: int, rank: int) -> None:
    """Seed dropout by epoch, so that a resumed run equals an uninterrupted one."""
    key = np.random.SeedSequence([seed, epoch, rank])
    torch.manual_seed(int(key.generate_state(1)[0]))
