"""Outputs that say by a hash what was written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from srrag.runner.verify import damaged_outputs
from srrag.storage.atomic_write import commit_json
from srrag.storage.sealed_folder import check_sealed, seal
from tests.unit.lab.report.toy_results import write_toy


def changed(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))


def flipped(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    jobs = tmp_path / "jobs"
    for name in ("betr", "features", "answerable", "thresholds"):
        commit_json(jobs / "fit_betr" / "srrag" / f"{name}.json", {"weight": 1.5}, sealed=True)
    model = jobs / "train_filter" / "model"
    model.mkdir(parents=True)
    (model / "weights.bin").write_bytes(b"1.5")
    seal(model, {"training": {"epochs": 1}})
    write_toy(jobs / "sweep")
    (jobs / "export").mkdir()
    (jobs / "export" / "graph.json").write_text("{")
    (jobs / "mine.json").write_text("{")
    return tmp_path


def test_what_was_written_is_whole_and_what_is_not_ours_is_left_alone(root: Path) -> None:
    assert list(damaged_outputs(root)) == []
    assert list(damaged_outputs(root / "of no jobs")) == []


@pytest.mark.parametrize(
    ("name", "damage", "told"),
    [
        ("fit_betr/srrag/betr.json", changed, "sha256"),
        ("fit_betr/srrag/features.json", changed, "sha256"),
        ("fit_betr/srrag/answerable.json", changed, "sha256"),
        ("fit_betr/srrag/thresholds.json", lambda path: path.write_text(""), "not valid JSON"),
        ("train_filter/model/weights.bin", flipped, "sha256"),
        ("train_filter/model/weights.bin", Path.unlink, "is missing"),
        ("train_filter/model/manifest.json", changed, "sha256"),
        ("sweep/questions.parquet", flipped, "sha256"),
        ("sweep/answers/ours.parquet", Path.unlink, "is missing"),
        ("sweep/rows.json", changed, "sha256"),
    ],
)
def test_a_damaged_output_is_named(
    root: Path, name: str, damage: Callable[[Path], None], told: str
) -> None:
    path = root / "jobs" / name
    damage(path)
    (problem,) = damaged_outputs(root)
    assert str(path) in problem and told in problem


def test_a_file_of_an_older_version_has_no_hash(root: Path) -> None:
    commit_json(root / "jobs" / "fit_betr" / "betr.json", {"weight": 2.5})
    assert list(damaged_outputs(root)) == []


def test_the_manifest_of_a_model_holds_its_facts_too(root: Path) -> None:
    model = root / "jobs" / "train_filter" / "model"
    check_sealed(model)
    text = (model / "manifest.json").read_text()
    (model / "manifest.json").write_text(text.replace('"epochs": 1', '"epochs": 2'))
    with pytest.raises(ValueError, match=r"manifest.json is not what was written"):
        check_sealed(model)
