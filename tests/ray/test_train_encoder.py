"""An embedder on Ray Train: a killed worker goes on. Shared steps: unit/train/test_together.py."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import ray.cloudpickle

import tests.ray.checkpoints
from srrag.lab.train.encoder.training import run_plain
from srrag.runner.ray.train import train_on_ray
from tests.encoder_toys import pooled_bert, toy_task
from tests.ray.checkpoints import wait_until_heard

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pooled_bert(tmp_path_factory.mktemp("encoder") / "model")


def dies_once(config: dict[str, Any], group: Any) -> dict[str, Any]:
    """Train, but kill this worker after its first checkpoint, the first time."""
    marker, report = Path(config["marker"]), group.report
    resumed = group.restore()

    def dying(metrics: dict[str, Any], state: dict[str, Any]) -> None:
        report(metrics, state)
        if state["done"] == 1 and not marker.exists():
            marker.touch()
            wait_until_heard(Path(config["folder"]))
            os.kill(os.getpid(), signal.SIGKILL)

    group.report = dying
    found = run_plain(config["task"], group)
    return {**found, "resumed_at": resumed["done"] if resumed else 0}


# One on Ray is killed in test_fit_betr.py, this training in unit/train/encoder.
@pytest.mark.rounds
def test_a_killed_worker_goes_on_to_the_same_weights(encoder: Path, tmp_path: Path) -> None:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.cloudpickle.register_pickle_by_value(tests.ray.checkpoints)
    plain = toy_task(encoder, tmp_path / "state").plain()
    config = {"task": plain, "marker": str(tmp_path / "died"), "folder": str(tmp_path / "dying")}
    found = train_on_ray(dies_once, config, workers=1, folder=tmp_path, name="dying")
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    ray.cloudpickle.unregister_pickle_by_value(tests.ray.checkpoints)
    assert found.pop("resumed_at") == 1
    alone = run_plain(toy_task(encoder, tmp_path / "alone").plain())
    losses = [[part.pop("train_loss") for part in one["curve"]] for one in (found, alone)]
    # Sums of other numbers of threads differ in their last digits.
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert found == alone
