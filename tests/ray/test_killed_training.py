"""A training on Ray whose worker is killed goes on, and a finished one is not done again.

It counts, with a checkpoint after each step. That each kind of training goes on to the same
weights: `resumed` in unit/lab/train. What workers learn together: unit/lab/train/test_together.py.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from srrag.runner.ray.train import train_on_ray
from tests.ray.nodes import by_value

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

SNAPSHOT = "checkpoint_manager_snapshot.json"
PATIENCE_S = 40.0
STEPS, LAST = 3, 2


def wait_until_heard(run: Path) -> None:
    """Wait until the controller of a run of Ray Train lists the newest checkpoint in its folder."""
    newest = max(path.name for path in run.iterdir() if path.name.startswith("checkpoint_2"))
    until = time.monotonic() + PATIENCE_S
    while newest not in (run / SNAPSHOT).read_text("utf-8"):
        assert time.monotonic() < until, f"nobody heard of {newest}"
        time.sleep(0.05)


def count(config: dict[str, Any], group: Any) -> dict[str, Any]:
    """Add up the numbers of the steps; the first time this worker is killed after the `LAST`."""
    state = group.restore() or {"done": 0, "sum": 0}
    began, died = state["done"], Path(config["died"])
    while state["done"] < STEPS:
        done = state["done"] + 1
        state = {"done": done, "sum": state["sum"] + done}
        group.report({"done": done}, state)
        if done == LAST and not died.exists():
            died.touch()
            wait_until_heard(Path(config["folder"]))
            os.kill(os.getpid(), signal.SIGKILL)
    return {"began": began, **state}


def test_a_killed_training_goes_on_and_a_finished_one_is_not_done_again(tmp_path: Path) -> None:
    config = {"died": str(tmp_path / "died"), "folder": str(tmp_path / "counts")}
    with by_value(sys.modules[__name__]):
        found = train_on_ray(count, config, workers=1, folder=tmp_path, name="counts")
    assert (tmp_path / "died").exists()
    assert found == {"began": LAST, "done": STEPS, "sum": 6}

    def never(config: dict[str, Any], group: Any) -> dict[str, Any]:
        raise AssertionError("it was finished")

    assert train_on_ray(never, config, workers=1, folder=tmp_path, name="counts") == found


def interrupt(config: dict[str, Any], group: Any) -> dict[str, Any]:
    """Press Ctrl-C for the process that waits for this training."""
    os.kill(config["driver"], signal.SIGINT)
    time.sleep(PATIENCE_S)
    return {}


def test_an_interrupted_training_is_an_interrupt_of_its_command(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the shell may ignore it
    try:
        with by_value(sys.modules[__name__]), pytest.raises(KeyboardInterrupt):
            train_on_ray(interrupt, {"driver": os.getpid()}, workers=1, folder=tmp_path, name="cut")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
