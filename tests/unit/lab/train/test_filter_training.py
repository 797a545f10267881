from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from srrag.lab.train.filter.judge import write_card, write_model
from srrag.lab.train.filter.pairs import FilterSettings, FilterTask
from srrag.lab.train.filter.training import (
    FilterTraining,
    choose_and_train,
    read_training,
    run_plain,
)
from srrag.lab.train.group import Alone, Trials
from srrag.lab.train.loop import trained_weights
from srrag.model.filter import (
    BATCH_TOKENS,
    Base,
    Decision,
    load_filter,
    load_pair_model,
    read_facts,
)
from srrag.model.pair_encoder import equal_lengths, scores
from tests.together import resumed
from tests.unit.lab.train.filter_toys import judged_rows, tiny_encoder, toy_task, write_rows

PLAIN = Decision(threshold=0.5)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return Base(model=str(tiny_encoder(tmp_path_factory.mktemp("encoder"))), max_tokens=48)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "pairs.jsonl", judged_rows(8))


def test_the_loss_falls_and_sixteen_pairs_are_learned_by_heart(
    base: Base, path: Path, tmp_path: Path
) -> None:
    task = toy_task(path, base, tmp_path / "state", epochs=25)
    result = run_plain(task.plain())
    losses = [point["train_loss"] for point in result["curve"]]
    assert len(losses) == 25
    assert losses[-1] < 0.1 < 0.4 < losses[0]
    folder = tmp_path / "model"
    weights = trained_weights(Path(task.state) / result["weights"])
    write_model(folder, base, weights, PLAIN, {"seed": 0})
    pairs = read_training(str(path), None)
    found = load_filter(folder).probabilities(pairs.questions, pairs.passages)
    assert ((found >= 0.5) == (pairs.labels == 1)).all()


def test_what_is_read_back_answers_as_what_was_trained(
    base: Base, path: Path, tmp_path: Path
) -> None:
    task = toy_task(path, base, tmp_path / "state", epochs=2, share=0.3)
    result = run_plain(task.plain())
    weights = trained_weights(Path(task.state) / result["weights"])
    assert "encoder.embeddings.word_embeddings.weight" not in weights, "few pairs teach no words"
    write_model(tmp_path / "model", base, weights, PLAIN, {})
    model = load_pair_model(base, "cpu")
    for name, parameter in model.module.named_parameters():
        if name in weights:
            parameter.data.copy_(weights[name])
    model.module.eval()
    pairs = read_training(str(path), None)
    texts = (pairs.questions, pairs.passages)
    before = scores(model.examples(*texts), model.logits, BATCH_TOKENS)
    after = load_filter(tmp_path / "model").probabilities(*texts)
    assert after == pytest.approx(1 / (1 + np.exp(-before)), abs=1e-4)
    pairs_of = zip(*texts, strict=True)
    alone = [load_filter(tmp_path / "model").probabilities([q], [p])[0] for q, p in pairs_of]
    assert after.tolist() == alone
    held = np.array(result["logits"])
    assert len(held) == 4
    assert {round(x, 3) for x in held} <= {round(x, 3) for x in before}


def test_any_encoder_will_do(tmp_path: Path) -> None:
    """One that is no plain BERT is run by transformers, to the same probabilities."""
    from transformers import DistilBertConfig, DistilBertModel

    folder = tiny_encoder(tmp_path / "other")
    (folder / "model.safetensors").unlink()
    torch.manual_seed(0)
    config = DistilBertConfig(
        vocab_size=30522, dim=32, n_layers=2, n_heads=2, hidden_dim=64, max_position_embeddings=64
    )
    DistilBertModel(config).save_pretrained(folder)
    base = Base(model=str(folder), max_tokens=48)
    write_model(tmp_path / "model", base, {}, PLAIN, {})
    model = load_pair_model(base, "cpu")
    model.module.eval()
    texts = (["Does zinc help?", "Is it so?"], ["Zinc helped nobody in a trial.", "It is."])
    weights = dict(model.module.named_parameters())
    write_model(tmp_path / "model", base, {n: w.detach() for n, w in weights.items()}, PLAIN, {})
    logits = scores(model.examples(*texts), model.logits, BATCH_TOKENS)
    found = load_filter(tmp_path / "model").probabilities(*texts)
    assert found == pytest.approx(1 / (1 + np.exp(-logits)), abs=1e-4)


def test_a_killed_training_goes_on_to_the_same_weights(
    base: Base, path: Path, tmp_path: Path
) -> None:
    whole = toy_task(path, base, tmp_path / "whole", share=0.3)
    undisturbed = run_plain(whole.plain())
    task = toy_task(path, base, tmp_path / "state", share=0.3)
    found = resumed(run_plain, task.plain(), 1)
    assert found["curve"] == undisturbed["curve"]
    assert found["logits"] == undisturbed["logits"]
    left = trained_weights(tmp_path / "state" / found["weights"])
    right = trained_weights(tmp_path / "whole" / undisturbed["weights"])
    assert all((left[name] == right[name]).all() for name in right)
    assert [p.name for p in (tmp_path / "state").glob("*.safetensors")] == [found["weights"]]


@pytest.mark.parametrize("folds", [0, 2])
def test_held_out_questions_that_cannot_judge_are_told_before_any_training(
    base: Base, tmp_path: Path, folds: int
) -> None:
    rows = [{**row, "label": int(n == 0)} for n, row in enumerate(judged_rows(12))]
    path = write_rows(tmp_path / "pairs.jsonl", rows)
    pairs = read_training(str(path), None)

    def make(settings: FilterSettings, seed: int, fold: int | None) -> FilterTask:
        part: dict[str, Any] = {"folds": folds, "fold": fold} if folds else {"share": 0.2}
        return replace(toy_task(path, base, tmp_path, seed=seed, **part), settings=settings)

    def never(task: object) -> dict[str, Any]:
        raise AssertionError("it is trained")

    settings = toy_task(path, base, tmp_path).settings
    with pytest.raises(ValueError, match="held out have pairs of one label alone"):
        choose_and_train(pairs, make, [settings], [1], Trials(never, never), folds)


def test_a_weight_on_yes_moves_the_answers_to_yes(base: Base, tmp_path: Path) -> None:
    rows = judged_rows(12) + [
        {**r, "passage": f"{r['passage']} again"} for r in judged_rows(12) if not r["label"]
    ]
    path = write_rows(tmp_path / "pairs.jsonl", rows)
    means = []
    for weight in (1.0, 8.0):
        task = toy_task(path, base, tmp_path / str(weight), yes_weight=weight, share=0.5, epochs=4)
        means.append(np.mean(run_plain(task.plain())["logits"]))
    assert means[1] > means[0] + 0.2


def test_a_changed_file_is_refused(base: Base, path: Path, tmp_path: Path) -> None:
    task = toy_task(path, base, tmp_path / "state")
    write_rows(path, judged_rows(9))
    with pytest.raises(ValueError, match="has changed since the run began"):
        run_plain(task.plain())


def test_a_batch_holds_pairs_of_about_one_length(base: Base, tmp_path: Path) -> None:
    rows = judged_rows(40)
    for n, row in enumerate(rows):
        row["passage"] += " indeed" * (n % 13)
    path = write_rows(tmp_path / "pairs.jsonl", rows)
    task = toy_task(path, base, tmp_path / "state")
    training = FilterTraining(task, Alone(), read_training(str(path), None), np.zeros(80, bool))
    plan = training.plan(0)
    assert sorted(np.concatenate(plan).tolist()) == list(range(80))
    lengths = np.array([len(ids) for ids, _ in training.examples])
    padding = sum(int((lengths[rows].max() - lengths[rows]).sum()) for rows in plan)
    assert padding < 0.06 * lengths.sum()
    assert any((a != b).any() for a, b in zip(plan, training.plan(1), strict=True))


def test_a_tampered_weight_is_named(base: Base, tmp_path: Path) -> None:
    write_model(tmp_path, base, {}, PLAIN, {})
    write_card(tmp_path, "# A card\n")
    assert load_filter(tmp_path).facts == read_facts(tmp_path)
    file = tmp_path / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.safetensors is not what was written") as caught:
        load_filter(tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=r"no manifest\.json"):
        load_filter(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"model": "/nowhere/at/all"}, "train.model=/nowhere/at/all"),
        ({"max_tokens": 100}, "train.max_tokens=100: .* has 64 positions"),
        ({"max_tokens": 3}, "at least 16"),
        ({"kind": "oracle"}, "one of encoder, causal"),
        ({"dtype": "bfloat16"}, "for train.kind=causal only"),
    ],
)
def test_a_model_that_cannot_be_is_refused(base: Base, change: dict[str, Any], hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        load_pair_model(Base(**{"model": base.model, "max_tokens": 48, **change}), "cpu")


def test_rows_of_one_length_share_a_pass() -> None:
    groups = equal_lengths([3, 5, 3, 3, 9], batch_tokens=6)
    assert [group.tolist() for group in groups] == [[0, 2], [3], [1], [4]]
    assert equal_lengths([], batch_tokens=6) == []
