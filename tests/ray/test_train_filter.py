"""The evidence filter on Ray: one result on any number of workers, none lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jobs.train_filter
from srrag.config.compose import configure
from srrag.lab.train.filter.training import run_plain
from srrag.lab.train.loop import trained_weights
from srrag.model.filter import Base
from srrag.runner.ray.train import train_on_ray
from tests.unit.lab.train.filter_toys import judged_rows, tiny_encoder, toy_task, write_rows

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without dropout, whose masks differ by worker."""
    folder = tiny_encoder(tmp_path_factory.mktemp("encoder"))
    config = folder / "config.json"
    config.write_text(config.read_text().replace('_prob": 0.1', '_prob": 0.0'))
    return folder


@pytest.fixture
def plain(encoder: Path, tmp_path: Path) -> dict[str, Any]:
    path = write_rows(tmp_path / "pairs.jsonl", judged_rows(10))
    base = Base(model=str(encoder), max_tokens=48)
    return toy_task(path, base, tmp_path / "state", share=0.3, epochs=3).plain()


def test_parted_weights_learn_what_whole_ones_do(plain: dict[str, Any], tmp_path: Path) -> None:
    alone = run_plain(plain)
    parted = {
        **plain, "settings": {**plain["settings"], "shard": True}, "state": str(tmp_path / "parted")
    }  # fmt: skip
    found = train_on_ray(run_plain, parted, workers=2, folder=tmp_path, name="parted")
    assert np.allclose(found["logits"], alone["logits"], atol=1e-3)
    assert [p["train_loss"] for p in found["curve"]] == pytest.approx(
        [p["train_loss"] for p in alone["curve"]], abs=1e-4
    )
    left = trained_weights(tmp_path / "parted" / found["weights"])
    right = trained_weights(Path(plain["state"]) / alone["weights"])
    assert left.keys() == right.keys()
    # A key's bias moves no attention: its gradient is noise, which Adam scales up.
    names = [name for name in right if not name.endswith("key.bias")]
    assert all(np.allclose(left[name], right[name], atol=5e-3) for name in names)


def test_folds_are_trials_and_the_result_is_that_of_one_process(
    encoder: Path, tmp_path: Path
) -> None:
    write_rows(tmp_path / "data" / "train.jsonl", judged_rows(20))
    write_rows(tmp_path / "data" / "dev.jsonl", judged_rows(8, first=20))
    found = []
    for name, more in (("here", []), ("ray", ["profile=ray", "train.workers=1"])):
        options = [
            f"train.data={tmp_path / 'data'}", f"train.model={encoder}", "train.max_tokens=48",
            "train.folds=2", "train.epochs=1", "train.resamples=100", "train.learning_rate=1e-3",
            f"out={tmp_path / name}", *more,
        ]  # fmt: skip
        config = configure("train_filter", options)
        found.append(jobs.train_filter.run({**config, "command": "test"}))
    here, there = found
    assert here["compared"] == there["compared"]
    assert here["metrics"] == there["metrics"]
