"""A training on Ray whose worker is killed goes on, and a finished one is not done again.

What workers learn together: unit/lab/train/test_together.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from srrag.lab.train.encoder import training as encoder
from srrag.runner.ray.train import train_on_ray
from tests.encoder_toys import pooled_bert
from tests.encoder_toys import toy_task as encoder_task
from tests.ray.checkpoints import killed_after

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


def test_an_encoder_comes_to_the_same_weights_and_is_not_trained_again(tmp_path: Path) -> None:
    base = pooled_bert(tmp_path / "model")
    plain = encoder_task(base, tmp_path / "state").plain()
    killed = killed_after(1, encoder.__name__, plain, tmp_path)
    same(killed, encoder.run_plain(encoder_task(base, tmp_path / "alone").plain()))
    Path(plain["material"]).unlink()
    again = train_on_ray(encoder.run_plain, plain, workers=2, folder=tmp_path, name="dying")
    assert again == killed


def same(killed: dict[str, Any], alone: dict[str, Any]) -> None:
    """Sums of other numbers of threads differ in their last digits; all else is equal."""
    assert killed["resumed_at"] == 1
    losses = [[part["train_loss"] for part in one["curve"]] for one in (killed, alone)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    left, right = (
        {**one, "curve": [{**part, "train_loss": 0} for part in one["curve"]]}
        for one in (killed, {**alone, "resumed_at": 1})
    )
    assert left == right
