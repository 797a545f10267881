"""Trainings on Ray whose worker is killed after a checkpoint; it counts once it was heard of."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import ray.cloudpickle

from srrag.runner.ray.train import train_on_ray

SNAPSHOT = "checkpoint_manager_snapshot.json"
PATIENCE_S = 40.0


def wait_until_heard(run: Path) -> None:
    """Wait until the controller of a run of Ray Train lists the newest checkpoint in its folder."""
    newest = max(path.name for path in run.iterdir() if path.name.startswith("checkpoint_2"))
    until = time.monotonic() + PATIENCE_S
    while newest not in (run / SNAPSHOT).read_text("utf-8"):
        assert time.monotonic() < until, f"nobody heard of {newest}"
        time.sleep(0.05)


def dies_once(config: dict[str, Any], group: Any) -> dict[str, Any]:
    """Train, but kill this worker after the checkpoint `at`, the first time."""
    marker, report = Path(config["marker"]), group.report
    resumed = group.restore()

    def dying(metrics: dict[str, Any], state: dict[str, Any]) -> None:
        report(metrics, state)
        if state["done"] == config["at"] and not marker.exists():
            marker.touch()
            wait_until_heard(Path(config["folder"]))
            os.kill(os.getpid(), signal.SIGKILL)

    group.report = dying
    found = importlib.import_module(config["module"]).run_plain(config["task"], group)
    return {**found, "resumed_at": resumed["done"] if resumed else 0}


def killed_after(at: int, module: str, plain: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What the training of a module finds whose worker is killed once, and where it went on."""
    config = {
        "task": plain, "module": module, "at": at, "marker": str(folder / "died"),
        "folder": str(folder / "dying"),
    }  # fmt: skip
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        found = train_on_ray(dies_once, config, workers=1, folder=folder, name="dying")
    finally:
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert (folder / "died").exists()
    return found
