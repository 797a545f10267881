"""Run trainings in this process, or on Ray Train."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from srrag.lab.train.group import Alone
from srrag.lab.train.task import TrainingTask

RunTraining = Callable[[TrainingTask], dict[str, Any]]
"""Runs a training and returns what it found, as JSON."""


def trainer(run_plain: Callable[..., dict[str, Any]], workers: int, threads: int) -> RunTraining:
    """Trainings in this process, or with `workers` on the Ray that this process has joined.

    `run_plain` takes a task as plain values and the `Group` of its workers.
    """
    if not workers:

        def here(task: TrainingTask) -> dict[str, Any]:
            import torch

            torch.set_num_threads(threads)
            return run_plain(task.plain(), Alone(Path(task.state) / "state.json"))

        return here
    from srrag.runner.ray.train import train_on_ray

    def there(task: TrainingTask) -> dict[str, Any]:
        gpu = task.device != "cpu"
        return train_on_ray(
            run_plain,
            task.plain(),
            workers=workers,
            folder=Path(task.state),
            name="ray",
            use_gpu=gpu,
        )

    return there
