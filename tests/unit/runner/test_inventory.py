from __future__ import annotations

from pathlib import Path

from srrag.core.ids import file_sha256
from srrag.runner.deletion.vacuum import drop_unexplained, drop_unfinished
from srrag.runner.inventory import damaged_parts, unexplained
from srrag.runner.verify import verify
from srrag.storage.atomic_write import commit_json
from srrag.storage.store import Store
from tests.unit.runner.test_update import DOCUMENTS, build

STRAY = (
    "stages/entities/0123/entities.parquet", "stages/entities/0123/index/a.term",
    "stages/triples/0123/part-a.parquet", "stages/triples/0123/part-b.json",
    "stages/entities/0123/.spill-a/x.arrow", "builds/gone.rejects.parquet", "builds/.x.json.0123",
    "stages/loose", "stages/entities/loose",
)  # fmt: skip


def plant(root: Path, names: tuple[str, ...]) -> set[Path]:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    return {root / name for name in names}


def test_what_nothing_explains_is_named_and_removed(tmp_path: Path) -> None:
    build(tmp_path, DOCUMENTS)
    store = Store(tmp_path)
    assert list(unexplained(store)) == []
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    planted = plant(tmp_path, STRAY)
    folder = store.artifacts("default")["entities"]
    planted |= plant(folder, ("more.parquet",))
    assert set(unexplained(store)) == planted
    assert set(drop_unexplained(store)) == planted
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
    assert verify(store, "default")["problems"] == []


def test_files_of_others_are_named_and_left(tmp_path: Path) -> None:
    build(tmp_path, DOCUMENTS)
    planted = plant(tmp_path, ("notes.txt", "mine/table.csv"))
    assert set(unexplained(Store(tmp_path))) == planted
    drop_unexplained(Store(tmp_path))
    assert all(path.exists() for path in planted)


def test_a_build_without_a_readable_manifest_goes_if_no_pointer_names_it(tmp_path: Path) -> None:
    build(tmp_path, DOCUMENTS[:2])
    store = Store(tmp_path)
    old = store.artifacts("default")["entities"]
    build(tmp_path, DOCUMENTS)
    (old / "manifest.json").write_text("")
    now = store.artifacts("default")["entities"]
    (now / "manifest.json").write_text("")
    assert set(unexplained(store)) == {path for path in old.rglob("*") if path.is_file()}
    drop_unexplained(store)
    assert not old.exists() and (now / "entities.parquet").exists()


def test_what_a_killed_run_left_half_written_goes_with_the_next_build(tmp_path: Path) -> None:
    build(tmp_path, DOCUMENTS)
    steps = Store(tmp_path).artifacts("default")["triples"]
    part = next(steps.glob("part-*.parquet")).stem[5:]
    left = plant(tmp_path, ("stages/entities/.f.0123/.spill-x/a.arrow", "stages/x/.trash-1/y"))
    left |= plant(steps, (f".attempt-{part}.json", ".attempt-other.json", ".part-q.parquet.01"))
    asked = plant(tmp_path, ("stages/answers-X-01/f/.part-q.parquet.01",))
    build(tmp_path, DOCUMENTS)
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in asked), "who asks does not hold the root"
    drop_unfinished(Store(tmp_path))
    assert not any(path.exists() for path in asked)


def test_what_explains_a_file_in_folders_that_a_pointer_names_and_in_others(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create()
    stages = {"raw": {"fingerprint": "a", "parts": ["p"]}, "dense": {"fingerprint": "b"}}
    store.write_pointer("default", {"stages": stages})
    whole = ("part-p.parquet", "part-p.json", ".attempt-p.json")
    half = ("part-q.parquet", "part-r.json", ".part-p.parquet.01", ".attempt-p.tmp")
    built = ("index/x", "part-0.parquet", "index/.tantivy-writer.lock")
    named = {"raw/a": (*whole, "notes.txt"), "dense/b": built}
    others = {"raw/c": whole, "dense/d": built}
    strays = {
        "raw/a": half, "raw/c": (*half, "notes.txt", "x.json"),
        "dense/b": (*whole, "y"), "dense/d": (*whole, "y", "x.json"), "raw/.c.01": whole,
    }  # fmt: skip
    for kept in (named, others):
        plant(tmp_path / "stages", tuple(f"{at}/{name}" for at in kept for name in kept[at]))
    lost = plant(tmp_path / "stages", tuple(f"{at}/{name}" for at in strays for name in strays[at]))
    for folder in ("dense/b", "dense/d"):
        commit_json(
            tmp_path / "stages" / folder / "manifest.json", {"files": dict.fromkeys(built[:2])}
        )
    commit_json(tmp_path / "stages/raw/a/manifest.json", {"spec": {}})
    commit_json(tmp_path / "stages/raw/c/manifest.json", {"spec": {}})
    commit_json(tmp_path / "stages/raw/c/x.json", {})
    lost |= plant(tmp_path, ("builds/.default.json.01", "builds/default.txt", "mine.txt"))
    lost |= plant(tmp_path, ("completions/x", "stages/entities/e/manifest.json"))
    assert sorted(unexplained(store)) == sorted(lost)


def test_parts_that_no_pointer_names_are_held_against_their_receipts(tmp_path: Path) -> None:
    kept, changed = plant(
        tmp_path, ("jobs/made/stages/seeds/f/part-a.parquet", "stages/questions/f/part-b.parquet")
    )
    for path in (kept, changed):
        commit_json(path.with_suffix(".json"), {"sha256": file_sha256(path)})
    changed.write_text("other")
    ((path, said),) = damaged_parts(tmp_path)
    assert path == changed and "is not what was written" in said
