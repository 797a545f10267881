"""What pruning and the start of a build remove, and what they leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from srrag.graph.communities import DetectCommunities
from srrag.runner.deletion.vacuum import (
    drop_builds,
    drop_notes,
    drop_outputs,
    drop_part,
    drop_unexplained,
    drop_unfinished,
    prune,
)
from srrag.runner.verify import verify
from srrag.storage.atomic_write import commit_json
from srrag.storage.store import Store
from tests.unit.runner.test_update import DOCUMENTS, build, plan_of, tables
from tests.unit.runner.test_verify import plant


def files(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def part(folder: Path, name: str) -> None:
    plant(folder, (f"part-{name}.parquet", f"part-{name}.json"))


def test_prune_leaves_what_pointers_name_and_what_was_asked(tmp_path: Path) -> None:
    build(tmp_path, DOCUMENTS)
    build(tmp_path, DOCUMENTS[:2], name="few")
    before, kept = files(tmp_path), tables(tmp_path)
    assert prune(Store(tmp_path)) == 0 and files(tmp_path) == before
    stages = tmp_path / "stages"
    for place in ("questions/f", "answers-X/f"):
        part(stages / place, "asked")
    asked = files(tmp_path)
    named = Store(tmp_path).artifacts("default")
    for folder in (stages / "zzz" / "f", stages / "aaa" / "f", named["triples"], named["raw"]):
        part(folder, "old1")
        part(folder, "old2")
        commit_json(folder / ".attempt-old1.json", {})
    for name in ("mmm", "bbb"):
        folder = stages / name / "0"
        plant(folder, ("table.parquet",))
        commit_json(folder / "manifest.json", {"files": {"table.parquet": "0"}})
    plant(tmp_path, ("jobs/.trash-1/x", "stages/loose", "builds/old.rejects.parquet"))
    assert prune(Store(tmp_path)) == 8 + 2
    assert files(tmp_path) == asked and tables(tmp_path) == kept
    for name in ("zzz", "aaa", "mmm", "bbb"):
        assert not list((stages / name).iterdir())
    assert prune(Store(tmp_path)) == 0


def test_an_old_version_of_a_build_goes_and_the_named_one_stays(tmp_path: Path) -> None:
    build(tmp_path, DOCUMENTS[:2])
    store = Store(tmp_path)
    old = store.artifacts("default")
    build(tmp_path, DOCUMENTS)
    now = store.artifacts("default")
    assert drop_builds(store) == 3 and drop_builds(store) == 0
    for name in ("entities", "communities"):
        assert not old[name].exists() and now[name].exists()
    assert verify(store, "default")["problems"] == []


def test_a_part_goes_with_receipt_and_note_and_no_other(tmp_path: Path) -> None:
    part(tmp_path, "a")
    part(tmp_path, "b")
    plant(tmp_path, (".attempt-a.json", ".attempt-b.json"))
    for _ in range(2):
        drop_part(tmp_path / "part-a.parquet")
        assert files(tmp_path) == {"part-b.parquet", "part-b.json", ".attempt-b.json"}


def test_the_data_of_a_part_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part(tmp_path, "a")
    gone: list[str] = []
    real = Path.unlink
    monkeypatch.setattr(
        Path, "unlink", lambda path, **named: (gone.append(path.name), real(path, **named))
    )
    drop_part(tmp_path / "part-a.parquet")
    assert gone == ["part-a.parquet", "part-a.json", ".attempt-a.json"]


def test_folders_without_a_file_go_but_those_of_questions(tmp_path: Path) -> None:
    Store(tmp_path).create()
    for name in ("triples/f/deep/er", "questions/f", "answers-X/f"):
        (tmp_path / "stages" / name).mkdir(parents=True)
    plant(tmp_path, ("stages/loose",))
    assert drop_unexplained(Store(tmp_path)) == [tmp_path / "stages" / "loose"]
    assert not (tmp_path / "stages" / "triples" / "f").exists()
    assert (tmp_path / "stages" / "questions" / "f").exists()
    assert (tmp_path / "stages" / "answers-X" / "f").exists()


LEFT = (
    "stages/entities/.f.0123/.spill-x/a.arrow", "stages/triples/f/.part-q.parquet.01",
    "stages/triples/f/.manifest.json.01", "stages/triples/f/.attempt-a.json.01.tmp",
    "builds/.default.json.01", ".organize.01", "organize/.x.01", ".forgotten.json.01",
    ".forgotten.copy.json.01", ".forgetting.json.01", ".srrag.json.01", "jobs/.trash-0/x",
    "stages/.trash-1/x", ".trash-2/x", "completions/.trash-3/x",
)  # fmt: skip
STAYS = (
    "stages/triples/f/part-q.parquet", "stages/triples/f/manifest.json", "builds/default.json",
    "stages/triples/f/.attempt-a.json", "organize/x", "forgotten.json", "srrag.json", "jobs/x/.y",
)  # fmt: skip


def test_what_is_half_written_or_half_removed_goes(tmp_path: Path) -> None:
    stays = plant(tmp_path, STAYS)
    left = plant(tmp_path, LEFT)
    asked = plant(
        tmp_path, ("stages/answers-X/f/.part-q.parquet.01", "stages/questions/f/.part-q.parquet.01")
    )
    drop_unfinished(Store(tmp_path), questions=False)
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in (*stays, *asked)), "who asks does not hold the root"
    drop_unfinished(Store(tmp_path))
    assert not any(path.exists() for path in asked) and all(path.exists() for path in stays)
    assert not list(tmp_path.rglob(".trash-*"))


def test_notes_go_with_parts_that_stand_or_are_not_wanted(tmp_path: Path) -> None:
    plan = plan_of(DetectCommunities())
    folder = Store(tmp_path).stage_dir("triples", plan.fingerprint("triples"))
    part(folder, "done")
    notes = plant(folder, (".attempt-done.json", ".attempt-old.json", ".attempt-due.json.01"))
    (due,) = plant(folder, (".attempt-due.json",))
    drop_notes(Store(tmp_path), plan, ["done", "due", "later"])
    assert due.exists() and not any(note.exists() for note in notes)


def test_of_outputs_figures_without_a_wanted_id_stay(tmp_path: Path) -> None:
    wanted, other = "a" * 32, "b" * 32
    planted = {
        "export/graph.json": "{}", "run.trec": "", "build/summary.json": other,
        "ask/summary.json": wanted,
    }  # fmt: skip
    for name, text in planted.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    told = drop_outputs(tmp_path, lambda name: name == wanted)
    assert told == ["export", "run.trec", "ask/summary.json"]
    assert files(tmp_path) == {"build/summary.json"}


def test_a_job_that_is_writing_its_store_is_not_deleted_under_it(tmp_path: Path) -> None:
    made = Store(tmp_path / "benchmark")
    made.create()
    with made.lock(), pytest.raises(ValueError, match="is being written by process"):
        drop_outputs(tmp_path, lambda name: False)
    assert made.root.exists()
    assert drop_outputs(tmp_path, lambda name: False) == ["benchmark"]
