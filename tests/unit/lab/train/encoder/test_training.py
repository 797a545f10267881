from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from srrag.lab.train.checkpoint import trained_weights
from srrag.lab.train.encoder.task import EncoderSettings
from srrag.lab.train.encoder.training import EncoderTraining, run_plain
from srrag.lab.train.group import Alone
from tests.encoder_toys import pooled_bert, toy_material, toy_task
from tests.together import resumed


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pooled_bert(tmp_path_factory.mktemp("encoder") / "model")


def test_the_loss_falls_and_the_seed_decides(encoder: Path, tmp_path: Path) -> None:
    found = run_plain(toy_task(encoder, tmp_path / "one", epochs=4).plain())
    losses = [point["train_loss"] for point in found["curve"]]
    assert losses[-1] < 0.8 * losses[0]
    again = run_plain(toy_task(encoder, tmp_path / "two", epochs=4).plain())
    assert again == found
    other = run_plain(toy_task(encoder, tmp_path / "three", epochs=4, seed=1).plain())
    assert other["curve"] != found["curve"]


def test_a_killed_training_goes_on_to_the_same_weights(encoder: Path, tmp_path: Path) -> None:
    undisturbed = run_plain(toy_task(encoder, tmp_path / "whole").plain())
    task = toy_task(encoder, tmp_path / "state")
    assert resumed(run_plain, task.plain(), 2) == undisturbed
    files = [tmp_path / name / undisturbed["weights"] for name in ("whole", "state")]
    left, right = map(trained_weights, files)
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)


def test_a_step_holds_the_gold_and_negatives_of_its_questions(
    encoder: Path, tmp_path: Path
) -> None:
    task = toy_task(encoder, tmp_path, epochs=1)
    given = toy_material()
    training = EncoderTraining(task, Alone(), given)
    seen = []
    for step in range(len(training.plan)):
        batch = training.batch(step)
        seen += batch.questions
        assert len(set(batch.passages)) == len(batch.passages)
        for row, column in zip(batch.questions, batch.target, strict=True):
            assert batch.passages[column] in given.best[row]
            assert set(batch.passages) & set(given.mined[row])
        assert not batch.excluded[np.arange(len(batch.questions)), batch.target].any()
    assert sorted(seen) == list(range(len(given.questions)))


def test_other_gold_in_the_batch_is_excluded(encoder: Path, tmp_path: Path) -> None:
    given = toy_material()
    given.gold[0].append(given.best[1][0])
    training = EncoderTraining(toy_task(encoder, tmp_path, batch=12), Alone(), given)
    batch = training.batch(0)
    row = batch.questions.index(0)
    assert [batch.passages[n] for n in np.flatnonzero(batch.excluded[row])] == given.best[1]
    assert batch.excluded.sum() == 1


@pytest.mark.parametrize(
    ("setting", "value"),
    [("epochs", 0), ("batch", 1), ("negatives", -1), ("learning_rate", 0), ("temperature", 0),
     ("late", 1.5), ("weight_decay", 1), ("checkpoint_steps", 0), ("max_tokens", 3)],
)  # fmt: skip
def test_a_wrong_setting_is_named(setting: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^train\.{setting}={value}[: ]"):
        EncoderSettings(**{setting: value})  # type: ignore[arg-type]
