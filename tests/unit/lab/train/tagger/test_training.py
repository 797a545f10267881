from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from srrag.lab.train.group import Alone, Floats
from srrag.lab.train.loop import pace
from srrag.lab.train.tagger.task import (
    Abstract,
    TaggerSettings,
    TaggerTask,
    fingerprint_of,
    read_abstracts,
)
from srrag.lab.train.tagger.training import (
    IGNORED,
    TaggerTraining,
    choose_lean,
    run_plain,
    token_scores,
)
from srrag.model.tagger import Words
from tests.tagger_toys import tiny_encoder, write_abstracts
from tests.together import resumed

FAST = {
    "epochs": 3, "learning_rate": 0.01, "head_factor": 1.0, "batch_tokens": 512, "window": 32,
    "context": 4, "frozen_layers": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_abstracts(tmp_path_factory.mktemp("crowd") / "crowd.jsonl", 60)


def task(crowd: Path, encoder: Path, state: Path, seed: int = 0, **settings: Any) -> TaggerTask:
    state.mkdir(exist_ok=True)
    return TaggerTask(
        crowd=str(crowd), fingerprint=fingerprint_of(read_abstracts(crowd)), share=0.25,
        settings=TaggerSettings(encoder=str(encoder), **{**FAST, **settings}),
        split_seed=0, seed=seed, device="cpu", state=str(state),
    )  # fmt: skip


def test_it_learns_what_the_words_give_away(crowd: Path, encoder: Path, tmp_path: Path) -> None:
    found = run_plain(task(crowd, encoder, tmp_path).plain(), Alone(tmp_path / "state.json"))
    assert found["held_out"]["token_macro_F1"] > 0.95
    losses = [point["train_loss"] for point in found["curve"]]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.2 < losses[0]
    assert [path.name for path in tmp_path.glob("*.safetensors")] == [found["weights"]]


def test_labels_that_say_nothing_teach_nothing(encoder: Path, tmp_path: Path) -> None:
    """The held-out figures are of abstracts that were not learned from."""
    path = write_abstracts(tmp_path / "crowd.jsonl", 40)
    lines = path.read_text().splitlines()
    rng = np.random.default_rng(0)
    mixed = [
        line.replace('"label": "P"', f'"label": "{"PIO"[rng.integers(3)]}"').replace(
            '"label": "I"', f'"label": "{"PIO"[rng.integers(3)]}"'
        )
        for line in lines
    ]
    path.write_text("\n".join(mixed) + "\n")
    found = run_plain(task(path, encoder, tmp_path / "state").plain())
    assert found["held_out"]["token_macro_F1"] < 0.85


def test_a_killed_run_goes_on_to_the_same_weights(
    crowd: Path, encoder: Path, tmp_path: Path
) -> None:
    whole = run_plain(task(crowd, encoder, tmp_path / "whole").plain())
    cut = task(crowd, encoder, tmp_path / "cut").plain()
    assert resumed(run_plain, cut, 1) == whole
    one, two = (load_file(tmp_path / name / whole["weights"]) for name in ("whole", "cut"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    # Done is done: nothing is learned again.
    assert run_plain(cut, Alone(tmp_path / "cut" / "state.json")) == whole


def test_the_rate_falls_to_nothing_where_epochs_have_unequally_many_batches(
    crowd: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    sizes = []

    def step(batch: Any, number: int) -> tuple[float, int]:
        steps.append(number)
        return 0.0, 1

    for seed in range(8):
        steps.clear()
        training = TaggerTraining(
            task(crowd, encoder, tmp_path, seed, window=10, batch_tokens=60, epochs=2), Alone(),
            read_abstracts(crowd)[:20], read_abstracts(crowd)[20:],
        )  # fmt: skip
        monkeypatch.setattr(training, "step", step)
        sizes.append([len(training.plan(epoch)) for epoch in range(2)])
        training.epoch()
        training.done = 1
        training.epoch()
        assert steps == list(range(sum(sizes[-1]))), "each step has a number of its own"
        assert all(pace(number, training.steps) > 0 for number in steps)
        assert pace(len(steps), training.steps) == 0
    assert any(first != second for first, second in sizes), "some epochs differ in length"


def test_another_seed_is_another_tagger(crowd: Path, encoder: Path, tmp_path: Path) -> None:
    first, second = (
        run_plain(task(crowd, encoder, tmp_path / str(seed), seed, epochs=1).plain())
        for seed in (0, 1)
    )
    assert first["curve"] != second["curve"]


def test_every_piece_is_learned_once_an_epoch_in_windows_that_move(
    crowd: Path, encoder: Path, tmp_path: Path
) -> None:
    training = TaggerTraining(
        task(crowd, encoder, tmp_path, window=16, batch_tokens=100), Alone(),
        read_abstracts(crowd)[:20], read_abstracts(crowd)[20:],
    )  # fmt: skip
    pieces = sum(len(some.ids) for some, _ in training.texts)
    for epoch in (0, 1):
        batches = training.plan(epoch)
        examples = [example for batch in batches for example in batch]
        assert sum(int((e.labels != IGNORED).sum()) for e in examples) == pieces
        assert max(len(e.ids) for e in examples) <= 2 * 16 + 2
        assert max(sum(len(e.ids) for e in batch) for batch in batches) <= 100
    lengths = [sorted(len(e.ids) for b in training.plan(epoch) for e in b) for epoch in (0, 1)]
    assert lengths[0] != lengths[1]


class Worker:
    """One of several workers that keeps what it would add up."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size, self.seen = rank, size, list[Floats]()

    def total(self, values: Floats) -> Floats:
        self.seen.append(values)
        return values

    def restore(self) -> None:
        return None

    def report(self, metrics: dict[str, Any], state: dict[str, Any]) -> None:
        raise AssertionError("no epoch ends here")


def test_workers_gradients_add_up_to_one_whatever_their_number(
    crowd: Path, encoder: Path, tmp_path: Path
) -> None:
    abstracts = read_abstracts(crowd)
    sums = []
    for size in (2, 3):
        workers = [Worker(rank, size) for rank in range(size)]
        for worker in workers:
            given = task(crowd, encoder, tmp_path)
            training = TaggerTraining(given, worker, abstracts[:40], abstracts[40:])
            batch = training.plan(0)[0]
            training.step(batch, 0)
        sums.append(sum(worker.seen[0] for worker in workers))
    assert np.abs(sums[0]).max() > 1e-3
    np.testing.assert_allclose(sums[0], sums[1], atol=1e-6)


def test_frozen_layers_and_embeddings_stay_as_they_are(
    crowd: Path, encoder: Path, tmp_path: Path
) -> None:
    found = run_plain(task(crowd, encoder, tmp_path, frozen_layers=1, epochs=1).plain())
    before, after = load_file(encoder / "model.safetensors"), load_file(tmp_path / found["weights"])
    kept = {
        name for name, tensor in before.items()
        if torch.equal(tensor, after.get(f"weight.bert.{name}", torch.empty(0)))
    }  # fmt: skip
    learned = {name.removeprefix("weight.bert.") for name in after if "layer.1." in name}
    assert {name for name in before if name.startswith(("embeddings", "encoder.layer.0"))} <= kept
    assert not learned & kept
    assert len(learned) == 16


def test_bfloat16_and_another_architecture_learn_too(crowd: Path, tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path / "distil", "distilbert")
    state = tmp_path / "state"
    found = run_plain(task(crowd, encoder, state, precision="bfloat16", epochs=2).plain())
    assert found["held_out"]["token_macro_F1"] > 0.8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "train.epochs=0"),
        ({"batch_tokens": 1.5}, "train.batch_tokens=1.5"),
        ({"learning_rate": -1}, "train.learning_rate=-1"),
        ({"dropout": 1.0}, r"train.dropout=1.0 is outside"),
        ({"frozen_layers": -1}, "train.frozen_layers=-1"),
        ({"precision": "float16"}, "train.precision=float16"),
        ({"window": 8, "context": 4}, "window 8 and context 4"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TaggerSettings(**settings)


def test_what_cannot_be_trained(crowd: Path, encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has 512 positions"):
        run_plain(task(crowd, encoder, tmp_path, window=300).plain())
    with pytest.raises(ValueError, match=r"train.encoder=.*nowhere: "):
        run_plain(task(crowd, tmp_path / "nowhere", tmp_path).plain())
    changed = {**task(crowd, encoder, tmp_path).plain(), "fingerprint": "0"}
    with pytest.raises(ValueError, match="has changed since the run began"):
        run_plain(changed)


def test_a_token_has_the_scores_of_its_first_word() -> None:
    text = "new  pain (vas)"
    words = Words(
        start=np.array([0, 5, 10, 11, 14]), end=np.array([3, 9, 11, 14, 15]),
        scores=np.arange(20, dtype=np.float32).reshape(5, 4),
    )  # fmt: skip
    found = token_scores(Abstract("1", text, np.zeros(len(text), np.int8)), words)
    assert found[[0, 2, 3]].tolist() == words.scores[[0, 1, 2]].tolist()
    assert found[1].argmax() == 0  # the empty token between two blanks


def test_each_class_has_the_lean_that_it_needs() -> None:
    """P is two nats too shy, I one too bold, O as it should be."""
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 4, 4000).astype(np.int8)
    scores = rng.normal(0, 0.3, (4000, 4)).astype(np.float32)
    scores[np.arange(4000), gold] += 2
    scores += np.array([0, -2, 1, 0], np.float32)
    lean, figures = choose_lean(scores, gold, lambda counts: counts)
    assert 1.5 <= lean[0] <= 2.5
    assert -1.5 <= lean[1] <= -0.5
    assert abs(lean[2]) <= 0.5
    assert figures["token_macro_F1"] > 0.98


def test_workers_choose_together() -> None:
    rng = np.random.default_rng(1)
    gold = rng.integers(0, 4, 600).astype(np.int8)
    scores = rng.normal(0, 1, (600, 4)).astype(np.float32)
    scores[np.arange(600), gold] += 1
    alone = choose_lean(scores, gold, lambda counts: counts)
    twice = choose_lean(scores[::2], gold[::2], lambda counts: 2 * counts)
    same = choose_lean(
        np.concatenate([scores[::2]] * 2), np.concatenate([gold[::2]] * 2), lambda counts: counts
    )
    assert twice == same
    assert alone[1]["token_macro_F1"] > 0.5
