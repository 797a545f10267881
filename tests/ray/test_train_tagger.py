"""The tagger on Ray Train: a killed worker goes on. Shared steps: unit/train/test_together.py."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import ray.cloudpickle

import tests.ray.checkpoints
from srrag.lab.train.tagger.abstracts import fingerprint_of, read_abstracts
from srrag.lab.train.tagger.task import TaggerSettings, TaggerTask
from srrag.lab.train.tagger.training import run_plain
from srrag.runner.ray.train import train_on_ray
from tests.ray.checkpoints import wait_until_heard
from tests.tagger_toys import tiny_encoder, write_abstracts

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


@pytest.fixture
def plain(tmp_path: Path) -> dict[str, Any]:
    crowd = write_abstracts(tmp_path / "crowd.jsonl", 40)
    settings = TaggerSettings(
        encoder=str(tiny_encoder(tmp_path / "encoder")), epochs=2, learning_rate=0.01,
        head_factor=1, batch_tokens=512, window=32, context=4, frozen_layers=0,
    )  # fmt: skip
    return TaggerTask(
        crowd=str(crowd), fingerprint=fingerprint_of(read_abstracts(crowd)), settings=settings,
        share=0.2, split_seed=0, seed=0, device="cpu", state=str(tmp_path / "state"),
    ).plain()  # fmt: skip


def dies_once(config: dict[str, Any], group: Any) -> dict[str, Any]:
    """Train, but kill this worker after its first checkpoint, the first time."""
    marker, report = Path(config["marker"]), group.report
    resumed = group.restore()

    def dying(metrics: dict[str, Any], state: dict[str, Any]) -> None:
        report(metrics, state)
        if not marker.exists():
            marker.touch()
            wait_until_heard(Path(config["folder"]))
            os.kill(os.getpid(), signal.SIGKILL)

    group.report = dying
    found = run_plain(config["task"], group)
    return {**found, "resumed_at": resumed["done"] if resumed else 0}


# One on Ray is killed in test_fit_betr.py, this training in unit/train/test_tagger.py.
@pytest.mark.rounds
def test_a_killed_worker_goes_on_to_the_same_weights(plain: dict[str, Any], tmp_path: Path) -> None:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.cloudpickle.register_pickle_by_value(tests.ray.checkpoints)
    config = {"task": plain, "marker": str(tmp_path / "died"), "folder": str(tmp_path / "dying")}
    found = train_on_ray(dies_once, config, workers=1, folder=tmp_path, name="dying")
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    ray.cloudpickle.unregister_pickle_by_value(tests.ray.checkpoints)
    assert found.pop("resumed_at") == 1
    alone = run_plain({**plain, "state": str(tmp_path / "alone")})
    losses = [[epoch.pop("train_loss") for epoch in one["curve"]] for one in (found, alone)]
    # Sums of other numbers of threads differ in their last digits.
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert found == alone
