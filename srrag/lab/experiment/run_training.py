"""Run trainings in this process, or on Ray Train."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from srrag.core.figures import printed
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


def readable(sets: Mapping[str, Mapping[str, Any]]) -> str:
    """Figures of each set of questions beside the baseline's, with the difference, for a terminal.

    The baseline is what is there without the training: a cosine, or the encoder as it was.
    """
    lines = []
    for title, found in sets.items():
        lines.append(title)
        for name, each in found["metrics"].items():
            base, gain = (found[key].get(name) for key in ("baseline_metrics", "difference"))
            beside = f"   baseline {base['value']:.4f}" if base else ""
            span = (
                f"   {gain['value']:+.4f} [{gain['low']:+.4f}, {gain['high']:+.4f}]" if gain else ""
            )
            lines.append(f"  {name:<20}{printed(each)}{beside}{span}")
    return "\n".join(lines) + "\n"
