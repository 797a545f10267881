"""Each training learns on two workers what it learns on one; on Ray: tests/ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from srrag.lab.train.encoder import training as encoder
from srrag.lab.train.filter import training as evidence_filter
from srrag.lab.train.loop import trained_weights
from srrag.lab.train.tagger import training as tagger
from srrag.model.filter import Base
from tests import encoder_toys, tagger_toys
from tests.together import work_together
from tests.unit.lab.train import filter_toys


def test_the_filter(tmp_path: Path) -> None:
    base = filter_toys.tiny_encoder(tmp_path / "encoder")
    config = base / "config.json"  # without dropout, whose masks differ by worker
    config.write_text(config.read_text().replace('_prob": 0.1', '_prob": 0.0'))
    path = filter_toys.write_rows(tmp_path / "pairs.jsonl", filter_toys.judged_rows(10))

    def plain(name: str) -> dict[str, Any]:
        task = filter_toys.toy_task(
            path, Base(model=str(base), max_tokens=48), tmp_path / name, share=0.3, epochs=3
        )
        return task.plain()

    alone = evidence_filter.run_plain(plain("alone"))
    found = work_together(evidence_filter.run_plain, plain("together"))
    assert np.allclose(found["logits"], alone["logits"], atol=1e-3)
    assert losses(found) == pytest.approx(losses(alone), abs=1e-4)


def test_the_tagger(tmp_path: Path) -> None:
    plain = tagger_toys.toy_plain(tmp_path)
    alone = tagger.run_plain({**plain, "state": str(tmp_path / "alone")})
    found = work_together(tagger.run_plain, {**plain, "state": str(tmp_path / "two")})
    assert losses(found)[-1] == pytest.approx(losses(alone)[-1], rel=1e-3)
    assert found["held_out"]["token_macro_F1"] == pytest.approx(
        alone["held_out"]["token_macro_F1"], abs=0.02
    )
    one, two = (load_file(tmp_path / name / alone["weights"]) for name in ("alone", "two"))
    assert all(torch.allclose(one[name], two[name], atol=1e-2) for name in one)


def test_the_encoder(tmp_path: Path) -> None:
    """Each has the passages of both as negatives; steps of 5 questions are shared unevenly."""
    base = encoder_toys.pooled_bert(tmp_path / "model")
    alone, two = (
        encoder_toys.toy_task(base, tmp_path / name, batch=5).plain() for name in ("alone", "two")
    )
    one = encoder.run_plain(alone)
    found = work_together(encoder.run_plain, two)
    assert losses(found) == pytest.approx(losses(one), rel=1e-4)
    left, right = (trained_weights(tmp_path / name / one["weights"]) for name in ("alone", "two"))
    # A key's bias moves no attention: its gradient is noise, which Adam scales up.
    names = [name for name in left if not name.endswith("key.bias")]
    assert all(torch.allclose(left[name], right[name], atol=2e-3) for name in names)


def losses(found: dict[str, Any]) -> list[float]:
    return [point["train_loss"] for point in found["curve"]]
