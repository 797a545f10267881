from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from srrag.lab.train.encoder.task import EncoderSettings, make_material, mine, read_material
from srrag.lab.train.encoder.training import (
    EncoderTraining,
    Vectors,
    contrastive_loss,
    mean_maxsim,
    run_plain,
)
from srrag.lab.train.group import Alone
from srrag.lab.train.loop import trained_weights
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


def vectors(pooled: list[list[float]], tokens: list[list[list[float]]]) -> Vectors:
    """Texts whose tokens of length 0 are no content."""
    made = torch.tensor(tokens)
    return Vectors(torch.tensor(pooled), made, made.norm(dim=2) > 0)


QUERIES = vectors([[1.0, 0.0], [0.0, 1.0]], [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 0.0]]])
PASSAGES = vectors(
    [[1.0, 0.0], [0.6, 0.8], [0.0, -1.0]],
    [[[1.0, 0.0], [0.0, 0.0]], [[0.6, 0.8], [0.0, 1.0]], [[0.0, -1.0], [0.0, 0.0]]],
)


def loss(late: float, excluded: Tensor | None = None) -> float:
    none = torch.zeros(2, 3, dtype=torch.bool)
    found = contrastive_loss(
        QUERIES, PASSAGES, torch.tensor([0, 1]), none if excluded is None else excluded,
        temperature=0.5, late=late,
    )  # fmt: skip
    return float(found)


def entropy(logits: list[float], target: int) -> float:
    return math.log(sum(math.exp(x) for x in logits)) - logits[target]


def test_maxsim_is_the_mean_over_content_tokens_of_the_best_cosine() -> None:
    """Tokens that are no content neither count nor win, not even against a cosine below 0."""
    assert mean_maxsim(QUERIES, PASSAGES).tolist() == pytest.approx(
        [pytest.approx(row) for row in [[0.5, 0.8, -0.5], [0.0, 1.0, -1.0]]]
    )


def test_a_text_without_content_has_no_similarity() -> None:
    empty = vectors([[1.0, 0.0]], [[[0.0, 0.0]]])
    assert mean_maxsim(empty, PASSAGES).tolist() == [[0.0, 0.0, 0.0]]
    assert mean_maxsim(QUERIES, empty).tolist() == [[0.0], [0.0]]


def test_the_loss_by_hand() -> None:
    pooled = (entropy([2.0, 1.2, 0.0], 0) + entropy([0.0, 1.6, -2.0], 1)) / 2
    late = (entropy([1.0, 1.6, -1.0], 0) + entropy([0.0, 2.0, -2.0], 1)) / 2
    assert loss(0.0) == pytest.approx(pooled, rel=1e-5)
    assert loss(1.0) == pytest.approx(late, rel=1e-5)
    assert loss(0.25) == pytest.approx(0.75 * pooled + 0.25 * late, rel=1e-5)


def test_other_gold_is_no_negative() -> None:
    excluded = torch.tensor([[False, True, False], [False, False, False]])
    pooled = (entropy([2.0, 0.0], 0) + entropy([0.0, 1.6, -2.0], 1)) / 2
    assert loss(0.0, excluded) == pytest.approx(pooled, rel=1e-5)


ANGLES = np.deg2rad([0, 20, 21, 40, 60, 80, 180])
MATERIAL_PASSAGES = np.stack([np.cos(ANGLES), np.sin(ANGLES)], 1).astype(np.float32)
QUERY = MATERIAL_PASSAGES[:1]


def test_negatives_are_the_nearest_that_are_no_gold_and_not_as_near_as_gold() -> None:
    """The best gold at 20° has cosine .940, 95 % of it is .893: 0° and 21° may be gold too."""
    assert mine(QUERY, MATERIAL_PASSAGES, [[0, 1]])[0] == [2, 3, 4, 5, 6]
    assert mine(QUERY, MATERIAL_PASSAGES, [[1, 4]])[0] == [3, 5, 6]


def test_only_what_is_learned_from_is_kept(tmp_path: Path) -> None:
    texts = [f"passage {n}" for n in range(7)]
    found = make_material(["a question"], texts, [{4: 2, 1: 1}], (QUERY, MATERIAL_PASSAGES))
    assert found.passages == [texts[n] for n in (1, 3, 4, 5, 6)]
    assert (found.best, found.gold, found.mined) == ([[2]], [[0, 2]], [[1, 3, 4]])
    found.write(tmp_path / "material.json")
    assert read_material(tmp_path / "material.json", found.fingerprint) == found
    with pytest.raises(ValueError, match=r"material\.json has changed since the run began"):
        read_material(tmp_path / "material.json", "another")
