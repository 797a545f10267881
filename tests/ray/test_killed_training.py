"""A training on Ray whose worker is killed goes on, and a finished one is not done again.

What workers learn together: unit/lab/train/test_together.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srrag.lab.train.encoder import training as encoder
from srrag.lab.train.filter import training as evidence_filter
from srrag.lab.train.tagger import training as tagger
from srrag.model.filter import Base
from srrag.runner.ray.train import train_on_ray
from tests.encoder_toys import pooled_bert
from tests.encoder_toys import toy_task as encoder_task
from tests.ray.checkpoints import killed_after
from tests.tagger_toys import toy_plain
from tests.unit.lab.train import filter_toys

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


def test_an_encoder_comes_to_the_same_weights_and_is_not_trained_again(tmp_path: Path) -> None:
    base = pooled_bert(tmp_path / "model")
    plain = encoder_task(base, tmp_path / "state").plain()
    killed = killed_after(1, encoder.__name__, plain, tmp_path)
    same(killed, encoder.run_plain(encoder_task(base, tmp_path / "alone").plain()))
    Path(plain["material"]).unlink()
    again = train_on_ray(encoder.run_plain, plain, workers=2, folder=tmp_path, name="dying")
    assert again == killed


@pytest.mark.rounds  # the encoder's is killed above, this one in unit/lab/train/tagger
def test_a_tagger_comes_to_the_same_weights(tmp_path: Path) -> None:
    plain = toy_plain(tmp_path)
    killed = killed_after(1, tagger.__name__, plain, tmp_path)
    same(killed, tagger.run_plain({**plain, "state": str(tmp_path / "alone")}))


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


@pytest.mark.rounds  # the encoder's is killed above, this one in unit/lab/train
def test_a_filter_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    base = Base(model=str(filter_toys.tiny_encoder(tmp_path / "encoder")), max_tokens=48)
    path = filter_toys.write_rows(tmp_path / "pairs.jsonl", filter_toys.judged_rows(10))
    plain = filter_toys.toy_task(path, base, tmp_path / "state", share=0.3, epochs=3).plain()
    undisturbed = evidence_filter.run_plain({**plain, "state": str(tmp_path / "undisturbed")})
    found = killed_after(2, evidence_filter.__name__, plain, tmp_path)
    # A crash may lose the last checkpoint that was reported, but not the one before.
    assert found["resumed_at"] in (1, 2)
    assert np.allclose(found["logits"], undisturbed["logits"], atol=1e-5)
