from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

import jobs.evaluate
import jobs.train_filter
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from srrag.lab.experiment.train_filter import read_base
from srrag.model.filter import load_pair_model
from tests.e2e.command import check_summary
from tests.unit.lab.train.filter_toys import judged_rows, tiny_encoder, write_rows


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """40 questions to learn from, one of which the test file asks too."""
    train = judged_rows(40) + [{**row, "query_id": "other"} for row in judged_rows(1, first=40)]
    write_rows(tmp_path / "data" / "train.jsonl", train)
    write_rows(tmp_path / "data" / "dev.jsonl", judged_rows(12, first=40))
    return tmp_path / "data"


def trained(encoder: Path, data: Path, *overrides: str) -> dict[str, Any]:
    usual = [
        f"train.data={data}", f"train.model={encoder}", "train.max_tokens=48", "profile.threads=1",
        "train.learning_rate=3e-3", "train.resamples=200", "train.epochs=2",
        f"root={data.parent / 'root'}", "train.validation_share=0.3",
    ]  # fmt: skip
    config = configure("train_filter", [*usual, *overrides])
    return jobs.train_filter.run({**config, "command": "test"})


def test_learns_judges_and_is_evaluated_to_the_same_figures(encoder: Path, data: Path) -> None:
    summary = trained(encoder, data, "train.seeds=[3,4]")
    json.dumps(summary, allow_nan=False)
    out = data.parent / "root" / "jobs" / "train_filter"
    assert summary["out"] == str(out)
    assert {path.name for path in out.iterdir()} >= {"model", "state"}
    assert {path.name for path in (out / "model").iterdir()} == {
        "README.md", "config.json", "filter.json", "manifest.json", "model.safetensors",
        "tokenizer.json",
    }  # fmt: skip
    facts = summary["data"]
    assert (facts["left_out_pairs"], facts["training_pairs"], facts["validation_pairs"]) == (
        2,
        56,
        24,
    )
    assert summary["pairs"] == 24
    assert set(summary["metrics"]) == {"precision", "recall", "F1", "AUROC", "ECE"}
    check_summary("train_filter", {"job": "train_filter", **summary})
    assert summary["difference"]["AUROC"].keys() == {"value", "low", "high", "n", "p"}
    assert [one["seed"] for one in summary["seeds"]["each"]] == [3, 4]
    areas = [summary["seeds"]["mean"]["AUROC"], summary["metrics"]["AUROC"]["value"]]
    assert all(0 <= area <= 1 for area in areas)
    assert (out / f"seed-{3 if summary['seed'] == 4 else 4}").is_dir()
    card = (out / "model" / "README.md").read_text()
    assert f"| F1 | {summary['metrics']['F1']['value']:.3f} |" in card
    config = configure(
        "evaluate",
        ["bench=filter", f"bench.path={data / 'dev.jsonl'}", f"root={data.parent / 'root'}",
         "resamples=200"],
    )  # fmt: skip
    evaluated = jobs.evaluate.run({**config, "command": "test"})
    assert evaluated["metrics"] == summary["metrics"]
    check_summary("evaluate", {"job": "evaluate", **evaluated})
    assert evaluated["revision"] == summary["revision"]


def test_a_base_of_other_weights_in_the_same_folder_is_another_training(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "encoder")
    train = configure("train_filter", [f"train.model={folder}", "root=R"])["train"]
    before = read_base(train)
    assert before == read_base(train)
    weights = load_file(folder / "model.safetensors")
    save_file({name: 0.9 * each for name, each in weights.items()}, folder / "model.safetensors")
    assert read_base(train) != before
    with pytest.raises(ValueError, match="it is not the model sha256:"):
        load_pair_model(before, "cpu")


@pytest.mark.slow
def test_cross_validation_chooses_and_a_second_run_trains_nothing(
    encoder: Path, data: Path
) -> None:
    options = ["train.folds=3", "train.epochs=[1,2]"]
    summary = trained(encoder, data, *options)
    assert [len(one["of"]) for one in summary["compared"]] == [3, 3]
    best = max(summary["compared"], key=lambda one: one["AUROC"])
    assert summary["settings"]["epochs"] == best["epochs"]
    assert summary["data"]["training_pairs"] == summary["data"]["validation_pairs"] == 80
    state = data.parent / "root" / "jobs" / "train_filter" / "state"
    made = {path: path.stat().st_mtime_ns for path in state.rglob("*.safetensors")}
    assert len(made) == 7
    again = trained(encoder, data, *options)
    assert {path: path.stat().st_mtime_ns for path in state.rglob("*.safetensors")} == made
    assert again["revision"] == summary["revision"]
    assert again["metrics"] == summary["metrics"]


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("train.data=null", "train.data=FOLDER is missing"),
        ("train.kind=oracle", "train.kind=oracle"),
        ("train.epochs=0", "train.epochs=0"),
        ("train.epochs=[]", "at least one of each"),
        ("train.learning_rate=-1", "train.learning_rate=-1"),
        ("train.seeds=[]", "train.seeds"),
        ("train.seeds=[1,1]", "train.seeds"),
        ("train.folds=1", "train.folds=1"),
        ("train.validation_share=1", "train.validation_share=1"),
        ("train.workers=2", "workers need profile=ray"),
        ("train.shard=true", "set train.workers"),
        ("train.precision=int4", "train.precision=int4"),
        ("train.lora=true", "for train.kind=causal only"),
        ("train.dtype=bfloat16", "for train.kind=causal only"),
    ],
)
def test_wrong_usage_is_one_line(encoder: Path, data: Path, override: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        trained(encoder, data, override)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_weights_in_parts_are_not_cross_validated(encoder: Path, data: Path) -> None:
    """Each fold is trained by one worker, which cannot part its weights."""
    with pytest.raises(UsageError, match=r"train\.folds: .* not with train\.shard=true"):
        trained(encoder, data, "train.folds=5", "train.shard=true", "train.workers=2")


def test_bad_data_is_named(encoder: Path, data: Path) -> None:
    row = {"query_id": "1", "query": "Is it?", "passage": "It is.", "label": 1}
    write_rows(data / "dev.jsonl", [row])
    with pytest.raises(ValueError, match=r"dev\.jsonl: no question has both"):
        trained(encoder, data)
    (data / "train.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"train\.jsonl: there is no pair"):
        trained(encoder, data)
    with pytest.raises(UsageError, match=r"bench\.model=.*no such folder"):
        jobs.evaluate.run(
            configure("evaluate", ["bench=filter", f"bench.path={data / 'dev.jsonl'}", "root=/no"])
        )
