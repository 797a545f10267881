"""A fit on Ray Train, by one worker or several."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import ray.train
import torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

from srrag.storage.atomic_write import commit_json, read_json

Floats = npt.NDArray[np.float64]
Work = Callable[[dict[str, Any], Any], dict[str, Any]]
"""Maps a JSON configuration and the group to a JSON result; a function of the package."""

STATE, RESULT = "state.json", "result.json"


class RayGroup:
    """The workers of a TorchTrainer, seen from one of them (srrag.lab.train.group.Group)."""

    def __init__(self) -> None:
        """Ask Ray for the rank of this worker."""
        context = ray.train.get_context()
        self.rank = context.get_world_rank()
        self.size = context.get_world_size()

    def total(self, values: Floats) -> Floats:
        """Add an array over all workers by gloo, in float64."""
        if self.size == 1:
            return values
        shared = torch.from_numpy(np.array(values, np.float64))
        torch.distributed.all_reduce(shared)
        summed: Floats = shared.numpy()
        return summed

    def restore(self) -> dict[str, Any] | None:
        """Return the state of the last checkpoint."""
        checkpoint = ray.train.get_checkpoint()
        if checkpoint is None:
            return None
        with checkpoint.as_directory() as folder:
            state: dict[str, Any] = read_json(Path(folder) / STATE)
        return state

    def report(self, metrics: dict[str, Any], state: dict[str, Any]) -> None:
        """Report from all workers; the first worker's checkpoint holds the state."""
        if self.rank:
            ray.train.report(metrics)
            return
        with tempfile.TemporaryDirectory() as folder:
            commit_json(Path(folder) / STATE, state)
            ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))


class Trainer(TorchTrainer):
    """Leaves Ctrl-C to the command.

    Ray's handler ends the process without a word (SystemExit), and stays after the training.
    """

    def _register_sigint_handler(self, controller: Any) -> None:
        pass


def train_on_ray(
    work: Work,
    config: dict[str, Any],
    *,
    workers: int,
    folder: Path,
    name: str,
    use_gpu: bool = False,
) -> dict[str, Any]:
    """Run `work` on `workers` workers (0: in this process); returns the first one's result.

    A run whose `name` exists in `folder` resumes from its last checkpoint; a finished run is not
    repeated. With `use_gpu` each worker holds a GPU. Raises ray.train.WorkerGroupError when workers
    fail too often.
    """
    done = folder / name / RESULT
    if done.exists():
        earlier: dict[str, Any] = read_json(done)
        return earlier
    trainer = Trainer(
        _loop,
        train_loop_config={"work": work, "config": config},
        # The sums are in main memory even on GPU workers; sharded weights are not.
        torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if use_gpu else "gloo"),
        scaling_config=ScalingConfig(
            num_workers=workers,
            use_gpu=use_gpu,
            resources_per_worker={"CPU": 0.5, **({"GPU": 1} if use_gpu else {})},
        ),
        run_config=RunConfig(
            name=name,
            storage_path=str(folder.resolve()),
            failure_config=FailureConfig(max_failures=2),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    metrics = trainer.fit().metrics
    assert metrics is not None
    result: dict[str, Any] = json.loads(metrics["result"])
    commit_json(done, result)
    return result


def _loop(given: dict[str, Any]) -> None:
    group = RayGroup()
    saved = group.restore()
    done = saved is not None and "result" in saved
    result = saved["result"] if saved and done else given["work"](given["config"], group)
    # As text, because Ray flattens nested metrics.
    group.report({"result": json.dumps(result)}, {"result": result})
