from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jobs.train_encoder
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from srrag.lab.experiment.bench import in_sample
from srrag.lab.experiment.train_encoder import compared, harmed
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.retrieve.questions import EncodeQuestions
from srrag.storage.manifest import check_sealed
from tests.e2e.command import check_summary
from tests.encoder_toys import pooled_bert, write_beir
from tests.tiny_models import make_bert

FAST = [
    "embedder=folder", "embedder.max_tokens=64", "train.max_tokens=48", "train.batch=8",
    "train.learning_rate=1e-3", "train.epochs=3", "resamples=100", "profile.threads=1",
]  # fmt: skip
TEXTS = ["Does zinc relieve the hip?", "In trial 4 people with a painful neck were given zinc."]


def trained(*overrides: str) -> dict[str, Any]:
    config = configure("train_encoder", [*FAST, *overrides])
    return jobs.train_encoder.run({**config, "command": "srrag train_encoder …"})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 questions to learn from and to measure on, 16 of a second set, and an encoder."""
    folder = tmp_path_factory.mktemp("data")
    pooled_bert(folder / "encoder")
    write_beir(folder / "train", 40)
    write_beir(folder / "gate", 16, first=200)
    return folder


def usual(data: Path, out: Path) -> list[str]:
    return [
        f"train.data={data / 'train'}", f"gate.data={data / 'gate'}", f"out={out}",
        f"embedder.model={data / 'encoder'}",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def summary(data: Path) -> dict[str, Any]:
    return trained(*usual(data, data / "out"))


def test_it_learns_and_writes_a_folder(summary: dict[str, Any], data: Path) -> None:
    model = Path(summary["model"])
    assert model == data / "out" / "model"
    assert {path.name for path in model.iterdir()} >= {
        "config.json", "model.safetensors", "tokenizer.json", "encoder.json", "README.md",
        "manifest.json", "modules.json", "1_Pooling",
    }  # fmt: skip
    assert check_sealed(model) == summary["revision"]
    check_summary("train_encoder", {"job": "train_encoder", **summary})
    json.dumps(summary, allow_nan=False)
    for found in (summary, summary["gate"]):
        assert set(found["metrics"]) == {"dense_nDCG@10", "dense_recall@100", "maxsim_nDCG@10"}
        assert found["difference"]["dense_nDCG@10"]["value"] > 0.05
    assert summary["gate"]["metrics"]["dense_nDCG@10"]["n"] == 16
    card = (model / "README.md").read_text("utf-8")
    assert f"{summary['metrics']['dense_nDCG@10']['value']:.3f}" in card
    for file in model.glob("*.json"):
        assert str(data) not in file.read_text("utf-8")


def test_others_read_the_folder_to_the_same_vectors(summary: dict[str, Any], data: Path) -> None:
    from sentence_transformers import SentenceTransformer

    own = load(Encoder(model=summary["model"], max_tokens=64)).encode(TEXTS)
    theirs = SentenceTransformer(summary["model"], device="cpu").encode(TEXTS)
    np.testing.assert_allclose(own, theirs, atol=1e-5)
    before = load(Encoder(model=str(data / "encoder"), max_tokens=64)).encode(TEXTS)
    assert np.abs(own - before).max() > 0.01


def test_questions_that_it_saw_are_in_sample(summary: dict[str, Any], data: Path) -> None:
    encoder = Encoder(model=summary["model"])
    assert encoder.revision == summary["revision"]
    asked = [
        json.loads(line)
        for name in ("train", "gate")
        for line in (data / name / "queries.jsonl").read_text().splitlines()
    ]
    rows = [{"query_id": row["_id"], "text": row["text"]} for row in asked]
    found = in_sample([EncodeQuestions(encoder=encoder)], rows, "apart")
    assert len(found.parts["embedder"]) == summary["questions"] + 16
    assert found.unknown == ()
    assert len(rows) - len(found.questions) == summary["metrics"]["dense_nDCG@10"]["n"]


def test_a_second_training_goes_on_from_the_first(
    summary: dict[str, Any], data: Path, tmp_path: Path
) -> None:
    """Its identity is another; what the first saw it has seen too; a file that changed is named."""
    base = [f"embedder.model={summary['model']}", "train.folds=[0]", "train.held_folds=[4]",
            "gate.margin=1"]  # fmt: skip
    again = trained(*usual(data, tmp_path), *base)
    if again["model"] is None:
        pytest.fail(again["refused"])
    first, second = (Encoder(model=one["model"]) for one in (summary, again))
    assert first.fitted()[0].questions <= second.fitted()[0].questions
    assert first.revision != second.revision
    with (tmp_path / "model" / "model.safetensors").open("r+b") as file:
        file.seek(3000)
        file.write(b"xx")
    with pytest.raises(ValueError, match=r"model\.safetensors is not what was written") as caught:
        load(second)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_two_towers_learn_together(data: Path, tmp_path: Path) -> None:
    query = make_bert(tmp_path / "query", seed=1)
    overrides = [f"embedder.query_model={query}", "embedder.pooling=cls", "gate.margin=1"]
    found = trained(*usual(data, tmp_path / "out"), *overrides)
    model = found["model"]
    assert model is not None, found["refused"]
    encoder = Encoder(model=model, query_model=f"{model}/query", max_tokens=64)
    assert encoder.query_revision == check_sealed(Path(model) / "query")
    loaded = load(encoder)
    assert np.abs(loaded.encode(TEXTS, "query") - loaded.encode(TEXTS)).max() > 0.01
    assert found["difference"]["dense_nDCG@10"]["value"] > 0


def test_a_gate_that_got_worse_keeps_the_folder_away(
    summary: dict[str, Any], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The gold of the training set is turned round, so that it unlearns what the gate asks."""
    wrong = write_beir(tmp_path / "wrong", 32, first=300)
    pairs = zip(range(300, 332), reversed(range(300, 332)), strict=True)
    lines = ["query-id\tcorpus-id\tscore", *(f"q{one}\td{other}\t1" for one, other in pairs)]
    (wrong / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")
    found = trained(
        *usual(data, tmp_path / "out"), f"train.data={wrong}",
        f"embedder.model={summary['model']}", "train.learning_rate=5e-3",
    )  # fmt: skip
    assert (found["ok"], found["model"]) == (False, None)
    assert found["refused"].startswith("not written: dense_nDCG@10 of gate.data=")
    low = found["gate"]["difference"]["dense_nDCG@10"]["low"]
    assert low < -0.01 and "more than gate.margin=0.01: -" in found["refused"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"state"}
    assert f"error: {found['refused']}" in capsys.readouterr().err


def test_the_gate_asks_for_the_interval_not_the_mean() -> None:
    """A gain in the mean that rests on a few questions may be a loss; of many equal ones not."""
    before = np.full(60, 0.5)
    apart = before + np.where(np.arange(60) % 2, 0.26, -0.24)
    even = before + np.where(np.arange(60) % 2, 0.02, 0.0)

    def gate(dense: np.ndarray, maxsim: np.ndarray, margin: float) -> list[str]:
        after = {"dense_nDCG@10": dense, "maxsim_nDCG@10": maxsim}
        found = compared(after, dict.fromkeys(after, before), 1000)["difference"]
        assert all(figure["value"] >= 0 for figure in found.values())
        return harmed(found, margin)

    assert gate(even, even, 0.0) == []
    assert gate(apart, even, 0.01) == ["dense_nDCG@10"]
    assert gate(even, apart, 0.01) == ["maxsim_nDCG@10"]
    assert gate(apart, apart, 0.1) == []


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("train.data=null", "train.data=PATH is missing"),
        ("gate.data=null", "gate.data=PATH is missing"),
        ("train.data=/nowhere", "train.data=/nowhere: there is no such folder or file"),
        ("gate.data=/nowhere", "gate.data=/nowhere: there is no such folder or file"),
        ("train.split=dev", "qrels/dev.tsv is missing"),
        ("gate.data=${train.data}", "of its 40 questions are in train.data too"),
        ("train.folds=[5]", "train.folds=[5]"),
        ("train.folds=[]", "train.folds=[]: different folds"),
        ("train.held_folds=[0]", "train.held_folds=[0]: train.folds has some"),
        ("train.epochs=0", "train.epochs=0"),
        ("train.seed=-1", "train.seed=-1"),
        ("train.workers=2", "workers need profile=ray"),
        ("gate.passages=-1", "gate.passages=-1"),
        ("gate.margin=-0.1", "gate.margin=-0.1: a number from 0 to 1"),
        ("gate.margin=much", "gate.margin=much: a number from 0 to 1"),
        ("train.max_tokens=100", "train.max_tokens=100: "),
        ("embedder.backend=colbert", "embedder.backend=colbert: a model without a vector"),
        ("embedder.model=/nowhere/at/all", "embedder.model=/nowhere/at/all"),
    ],
)
def test_bad_input_is_one_line(data: Path, tmp_path: Path, override: str, hint: str) -> None:
    with pytest.raises(ValueError) as caught:
        trained(*usual(data, tmp_path), override)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "model").exists()


def test_bad_files_are_named(data: Path, tmp_path: Path) -> None:
    bare = make_bert(tmp_path / "bare")
    with pytest.raises(UsageError, match="does not say that it pools by cls or mean"):
        trained(*usual(data, tmp_path), f"embedder.model={bare}")
    empty = write_beir(tmp_path / "empty", 4)
    (empty / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\tnone\t1\n")
    with pytest.raises(UsageError, match="empty: no question has a gold passage"):
        trained(*usual(data, tmp_path), f"train.data={empty}")
    (empty / "corpus.jsonl").write_text('{"_id": "d0"}\n')
    with pytest.raises(UsageError, match=r"corpus\.jsonl:1: not a passage"):
        trained(*usual(data, tmp_path), f"train.data={empty}")
    quotes = tmp_path / "questions.jsonl"
    quotes.write_text("{}\n")
    with pytest.raises(UsageError, match=r"train\.root= is missing: questions\.jsonl quotes"):
        trained(*usual(data, tmp_path), f"train.data={quotes}")
