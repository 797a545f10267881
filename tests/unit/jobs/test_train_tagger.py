from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import jobs.build
import jobs.evaluate
import jobs.train_tagger
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from srrag.extract.find_mentions import FindByTagger
from srrag.storage.atomic_write import read_json
from srrag.storage.manifest import check_sealed
from srrag.storage.store import Store
from tests.e2e.command import check_summary
from tests.tagger_toys import tiny_encoder, write_abstracts

FAST = [
    "train.learning_rate=0.01", "train.head_factor=1", "train.batch_tokens=512",
    "train.window=32", "train.context=4", "train.frozen_layers=0", "profile.threads=1",
    "resamples=200",
]  # fmt: skip


def trained(*overrides: str) -> dict[str, Any]:
    config = configure("train_tagger", list(overrides))
    return jobs.train_tagger.run({**config, "command": "srrag train_tagger …"})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_abstracts(folder / "ebmnlp_crowd_dev.jsonl", 60)
    write_abstracts(folder / "ebmnlp_expert_test.jsonl", 12, seed=1, first=100)
    tiny_encoder(folder / "encoder")
    return folder


@pytest.fixture(scope="module")
def summary(data: Path) -> dict[str, Any]:
    encoder = f"train.encoder={data / 'encoder'}"
    return trained(f"train.data={data}", encoder, "train.seeds=[0,3]", *FAST)


def test_it_trains_scores_and_writes_a_folder(summary: dict[str, Any], data: Path) -> None:
    model = data / "tagger" / "model"
    assert summary["model"] == str(model)
    assert {path.name for path in model.iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.json", "tagger.json", "README.md",
        "manifest.json",
    }  # fmt: skip
    assert check_sealed(model) == summary["revision"]
    assert [seed["seed"] for seed in summary["seeds"]] == [0, 3]
    assert summary["lowest"] <= summary["mean_over_seeds"] <= summary["highest"]
    for seed in summary["seeds"]:
        tokens = seed["expert"]["mentions"]["metrics"]
        macro = tokens["token_macro_F1"]
        assert macro["value"] > 0.9
        assert macro["low"] <= macro["value"] <= macro["high"]
        assert {f"{c}_{m}" for c in "PIO" for m in ("precision", "recall", "F1")} <= set(tokens)
    check_summary("train_tagger", {"job": "train_tagger", **summary})
    assert summary["rules"]["metrics"]["token_macro_F1"]["value"] > 0.1
    chosen = max(summary["seeds"], key=lambda seed: seed["held_out"]["token_macro_F1"])
    assert summary["seed"] == chosen["seed"]
    json.dumps(summary, allow_nan=False)
    card = (model / "README.md").read_text("utf-8")
    assert f"{summary['metrics']['token_macro_F1']['value']:.3f}" in card
    assert "states no licence" in card
    for file in model.glob("*.json"):
        if file.name != "manifest.json":
            assert str(data) not in file.read_text("utf-8")


def test_the_folder_is_an_ordinary_token_classifier(summary: dict[str, Any]) -> None:
    from transformers import AutoModelForTokenClassification

    model = AutoModelForTokenClassification.from_pretrained(summary["model"], use_safetensors=True)
    assert model.config.id2label == {0: "none", 1: "P", 2: "I", 3: "O"}


def test_a_finished_training_is_not_done_again(
    summary: dict[str, Any], data: Path, tmp_path: Path
) -> None:
    state = shutil.copytree(data / "tagger" / "state", tmp_path / "state")
    before = {path: path.stat().st_mtime_ns for path in state.glob("*/*.safetensors")}
    assert len(before) == 2
    encoder = f"train.encoder={data / 'encoder'}"
    again = trained(f"train.data={data}", encoder, "train.seeds=[3]", "train.expert=null", *FAST,
                    f"out={tmp_path}")  # fmt: skip
    assert {path: path.stat().st_mtime_ns for path in state.glob("*/*.safetensors")} == before
    assert again["seeds"][0]["held_out"] == summary["seeds"][1]["held_out"]
    assert again["rules"] is None
    assert again["metrics"]["token_macro_F1"]["value"] is None


def test_evaluate_scores_its_mentions(summary: dict[str, Any], data: Path) -> None:
    config = configure("evaluate", [
        "bench=ebmnlp", f"bench.path={data / 'ebmnlp_expert_test.jsonl'}", "mentions=tagger",
        f"mentions.model={data / 'tagger' / 'seed-0'}" if summary["seed"] else
        f"mentions.model={summary['model']}",
    ])  # fmt: skip
    found = jobs.evaluate.run(config)
    expected = summary["seeds"][0]["expert"]["mentions"]
    assert found["model"].startswith("tagger: ")
    check_summary("evaluate", {"job": "evaluate", **found})
    assert found["metrics"]["token_macro_F1"]["value"] == pytest.approx(
        expected["metrics"]["token_macro_F1"]["value"], abs=1e-4
    )


@pytest.fixture
def tagger(summary: dict[str, Any], tmp_path: Path) -> Path:
    """A copy of the folder."""
    copy = tmp_path / "pico"
    shutil.copytree(summary["model"], copy)
    return copy


def built(root: Path, *overrides: str) -> dict[str, Any]:
    left_out = [f"stages.{name}=null" for name in ("vectors", "sparse", "units")]
    config = configure("build", [f"root={root}", *left_out, *overrides])
    return jobs.build.run({**config, "command": "test"})


def test_a_build_by_the_tagger_says_so(tagger: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    by_rules = built(root)
    by_tagger = built(root, "mentions=tagger", f"mentions.model={tagger}", "build=tagged")
    name = FindByTagger(model=str(tagger)).name
    assert by_rules["engines"] == ["rules"]
    assert by_tagger["engines"] == ["rules", f"{name}, relations by rules"]
    store = Store(root)
    one, two = (store.read_pointer(build)["stages"] for build in ("default", "tagged"))
    # Grading, chunking and windows are by rules either way, and are not done again.
    for stage in ("parsed", "documents", "chunks", "windows"):
        assert one[stage] == two[stage]
    assert "extracts" not in one
    folder = store.stage_dir("extracts", two["extracts"]["fingerprint"])
    assert read_json(folder / "manifest.json")["spec"]["mentions"]["revision"] == check_sealed(
        tagger
    )
    rows = pq.read_table(sorted(folder.glob("*.parquet"))[0]).to_pylist()
    facts = [fact for row in rows for fact in row["facts"]]
    assert facts
    assert not [fact for fact in facts if fact["reason"]]


def test_the_same_folder_elsewhere_is_the_same_build(tagger: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    built(root, "mentions=tagger", f"mentions.model={tagger}")
    moved = tagger.parent / "elsewhere" / "pico"
    moved.parent.mkdir()
    tagger.rename(moved)
    parts = sorted((root / "stages" / "triples").rglob("*.parquet"))
    built(root, "mentions=tagger", f"mentions.model={moved}")
    assert sorted((root / "stages" / "triples").rglob("*.parquet")) == parts


def test_a_tampered_file_ends_the_build_in_one_line(tagger: Path, tmp_path: Path) -> None:
    with (tagger / "model.safetensors").open("r+b") as file:
        file.seek(2000)
        file.write(b"x")
    with pytest.raises(ValueError, match=r"model\.safetensors is not what was written") as caught:
        built(tmp_path / "root", "mentions=tagger", f"mentions.model={tagger}")
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_no_tagger_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no manifest\.json"):
        built(tmp_path / "root", "mentions=tagger", f"mentions.model={tmp_path}")


def test_a_language_model_finds_its_own_mentions(tagger: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"mentions: engine .* finds its own"):
        built(tmp_path / "root", "mentions=tagger", f"mentions.model={tagger}", "engine=http",
              "engine.model=m")  # fmt: skip


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["train.seeds=[]"], r"train.seeds=\[\]"),
        (["train.seeds=[0,0]"], r"train.seeds=\[0, 0\]"),
        (["train.seeds=[a]"], "train.seeds"),
        (["train.epochs=0"], "train.epochs=0"),
        (["train.validation_share=0"], r"crowd_dev.jsonl: train.validation_share=0"),
        (["train.workers=2"], "workers need profile=ray"),
        (["train.crowd=/nowhere.jsonl"], "/nowhere.jsonl: there is no such file"),
        (["train.expert=${train.crowd}"], r"crowd_dev.jsonl line 1: the text stands in"),
        (["train.frozen_layers=7"], "train.frozen_layers=7: the encoder has 2"),
    ],
)
def test_wrong_settings_are_named(
    data: Path, tmp_path: Path, overrides: list[str], message: str
) -> None:
    encoder = f"train.encoder={data / 'encoder'}"
    fixed = [f"train.data={data}", encoder, f"out={tmp_path}", *FAST]
    with pytest.raises(ValueError, match=message) as caught:
        trained(*fixed, *overrides)
    assert "\n" not in str(caught.value)
