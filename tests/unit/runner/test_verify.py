from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.core.spec import file_sha256
from srrag.core.standing import STANDINGS
from srrag.corpus.notices import Notice, keep_statuses
from srrag.runner import verify as module
from srrag.runner.deletion.vacuum import drop_unexplained, drop_unfinished
from srrag.runner.verify import (
    _verify_documents,
    _verify_files,
    _verify_standing,
    damaged_outputs,
    damaged_parts,
    unexplained,
    verify,
)
from srrag.storage.atomic_write import commit_json, read_json
from srrag.storage.manifest import check_sealed, manifest_files, seal
from srrag.storage.store import Store
from tests.unit.lab.report.toy_results import write_toy
from tests.unit.runner.test_update import DOCUMENTS, build


def test_a_build_of_other_inputs_than_stand_is_told(tmp_path: Path) -> None:
    """As when a run ended after a part was made again and before what reads it."""
    build(tmp_path, DOCUMENTS)
    store = Store(tmp_path)
    assert verify(store, "default")["problems"] == []
    folder = store.artifacts("default")["communities"]
    manifest = read_json(folder / "manifest.json")
    read = manifest["contents"]["entities"]
    read[next(iter(read))] = "0" * 64
    manifest["contents"] = {"of no stage": {}, **manifest["contents"]}
    commit_json(folder / "manifest.json", manifest, sealed=True)
    (problem,) = verify(store, "default")["problems"]
    assert problem.startswith("communities:")
    assert "other entities than stand; run the build again" in problem
    build(tmp_path, DOCUMENTS)
    assert verify(store, "default")["problems"] == []


def test_an_input_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    build(tmp_path, DOCUMENTS)
    store = Store(tmp_path)
    folders = store.artifacts("default")
    manifest = read_json(folders["communities"] / "manifest.json")
    read = manifest["contents"]["entities"]
    read[next(iter(read))] = "0" * 64
    manifest["contents"] = {"triples": {}, **manifest["contents"]}
    commit_json(folders["communities"] / "manifest.json", manifest, sealed=True)
    receipt = store.receipt_path(*of("triples", store, store.read_pointer("default")))
    receipt.write_text("{")
    problems = verify(store, "default")["problems"]
    assert any("other entities than stand" in each for each in problems)
    assert any(each.startswith("triples: ") for each in problems)


def test_an_input_row_that_nothing_came_of_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(module._TRACES, "triples", ("doc_id", "raw_id"))
    build(tmp_path, [["zinc"], [], ["iron"]])
    (problem,) = verify(Store(tmp_path), "default")["problems"]
    assert problem.startswith("triples: ") and problem.endswith("1 input rows left no trace")


def broken(root: Path, change: Callable[[Store, dict[str, Any]], object]) -> list[str]:
    """What verify says of an intact root after a change of it, whose pointer is written anew."""
    build(root, DOCUMENTS)
    store = Store(root)
    pointer = store.read_pointer("default")
    change(store, pointer)
    store.write_pointer("default", pointer)
    found = verify(store, "default")
    assert found["ok"] == (not found["problems"])
    return [each.replace(f"{root}/", "") for each in found["problems"]]


def of(stage: str, store: Store, pointer: dict[str, Any]) -> tuple[str, str, str]:
    """The place of the only part of a stage."""
    return stage, pointer["stages"][stage]["fingerprint"], pointer["stages"]["raw"]["parts"][0]


def rewritten(stage: str, store: Store, pointer: dict[str, Any], **values: Any) -> None:
    """Change a receipt."""
    place = of(stage, store, pointer)
    path = store.receipt_path(*place)
    commit_json(path, asdict(replace(store.read_receipt(*place), **values)), sealed=True)


def test_an_intact_build_is_counted_whole(tmp_path: Path) -> None:
    build(tmp_path, DOCUMENTS)
    found = verify(Store(tmp_path), "default")
    assert found["problems"] == [] and found["ok"]
    counts = {"rows_in": 3, "skipped": 0, "failed": 0, "rows_out": 3, "rejected": 0}
    assert found["rows"] == {"raw": counts, "triples": {**counts, "rows_out": 4}}
    files = sum(
        len(manifest_files(Store(tmp_path).artifacts("default")[name]))
        for name in ("entities", "names", "communities")
    )
    assert found["checked"] == 2 + files


@pytest.mark.parametrize("stage", ["raw", "triples"])
@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"sha256": "0" * 64}, "is not what was written (sha256 differs)"),
        ({"num_bytes": 1}, "size or failures differ from the receipt"),
        ({"failed": 1}, "size or failures differ from the receipt"),
        ({"rows_out": 9}, "rows, not 9"),
        ({"rejected": 1}, "rejects differ from the receipt"),
        ({"reasons": {"crashed": 1}}, "rejects differ from the receipt"),
        ({"part": "other"}, "its receipt is of part 'other'"),
    ],
)
def test_a_receipt_that_does_not_tell_of_its_part_is_named(
    tmp_path: Path, stage: str, values: dict[str, Any], says: str
) -> None:
    problems = broken(tmp_path, lambda store, at: rewritten(stage, store, at, **values))
    assert any(each.startswith(f"{stage}: ") and each.endswith(says) for each in problems), problems


@pytest.mark.parametrize("values", [{"rows_in": 2}, {"skipped": 1}])
def test_a_part_of_other_rows_than_its_input_is_named(
    tmp_path: Path, values: dict[str, int]
) -> None:
    (problem,) = broken(tmp_path, lambda store, at: rewritten("triples", store, at, **values))
    assert problem.startswith("triples: ") and problem.endswith("its input has 3 rows")


def test_a_part_or_receipt_that_is_missing_or_no_receipt_is_named(tmp_path: Path) -> None:
    for number, (stage, path_of) in enumerate(
        [
            (stage, path)
            for stage in ("raw", "triples")
            for path in (Store.part_path, Store.receipt_path)
        ]
    ):
        problems = broken(
            tmp_path / f"gone{number}",
            lambda store, at, stage=stage, path_of=path_of: path_of(
                store, *of(stage, store, at)
            ).unlink(),  # type: ignore[misc]
        )
        assert [each for each in problems if "or its receipt is missing" in each]
        assert all(each.startswith((f"{stage}: ", "entities: ")) for each in problems)
    (problem, *_) = broken(
        tmp_path / "no",
        lambda store, at: store.receipt_path(*of("triples", store, at)).write_text("[]"),
    )
    assert "not a receipt" in problem


@pytest.mark.parametrize(
    ("text", "named"), [("", True), ("[]", True), ('{"fingerprint": "other"}', True)]
)
def test_a_manifest_of_a_step_that_is_not_its_own_is_named(
    tmp_path: Path, text: str, named: bool
) -> None:
    def change(store: Store, at: dict[str, Any]) -> None:
        path = store.artifacts("default")["triples"] / "manifest.json"
        path.write_text(text)

    (problem,) = broken(tmp_path, change)
    assert problem.startswith("triples: stages/triples/")
    assert problem.endswith("manifest.json is missing or of another stage") == named


def test_a_manifest_that_is_gone_is_named(tmp_path: Path) -> None:
    def change(store: Store, at: dict[str, Any]) -> None:
        for stage in ("triples", "communities"):
            (store.artifacts("default")[stage] / "manifest.json").unlink()

    problems = broken(tmp_path, change)
    assert [each.partition(":")[0] for each in problems] == [
        "triples",
        "communities",
        "communities",
    ]
    assert problems[-1].endswith("has no manifest")


def test_files_of_a_build_without_a_readable_manifest_are_not_counted(tmp_path: Path) -> None:
    store, problems = Store(tmp_path), list[str]()
    folder = store.stage_dir("dense", "f")
    assert _verify_files(store, "dense", {"fingerprint": "f"}, problems) == 0
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{")
    assert _verify_files(store, "dense", {"fingerprint": "f"}, problems) == 0
    assert [each.startswith("dense: ") for each in problems] == [True, True]
    assert "has no manifest" in problems[0] and "not valid JSON" in problems[1]


def test_a_build_whose_files_differ_is_named(tmp_path: Path) -> None:
    def change(store: Store, at: dict[str, Any]) -> None:
        folder = store.artifacts("default")["entities"]
        (folder / "edges.parquet").unlink()
        other = folder / "entities.parquet"
        other.write_bytes(other.read_bytes()[:-1] + b"x")

    problems = broken(tmp_path, change)
    told = " ".join(problems)
    assert "edges.parquet is missing" in told
    assert "entities.parquet is not what was written (sha256 differs)" in told
    assert len(problems) == 2


def test_a_pointer_that_holds_other_parts_or_stages_is_named(tmp_path: Path) -> None:
    def none(store: Store, at: dict[str, Any]) -> None:
        at["stages"]["raw"]["parts"] = []

    problems = broken(tmp_path / "none", none)
    assert problems[0] == "builds/default.json: names no part"
    assert "triples: the pointer names other parts than those of the corpus" in problems

    def unknown(store: Store, at: dict[str, Any]) -> None:
        at["stages"]["entities"]["inputs"] = ["elsewhere"]

    told = broken(tmp_path / "unknown", unknown)
    assert told == ["entities: its input 'elsewhere' is not in the pointer"]


def test_a_raw_row_of_another_name_than_its_content_is_named(tmp_path: Path) -> None:
    """The receipt is true of the file, as where damage was copied and hashed again."""

    def change(store: Store, at: dict[str, Any], column: str, new: Any) -> None:
        place = of("raw", store, at)
        table = store.read_part(*place)
        values = [new, *table[column].to_pylist()[1:]]
        number = table.schema.get_field_index(column)
        field = table.schema.field(column)
        table = table.set_column(number, field, pa.array(values, field.type))
        store.write_part(*place, table)

    for column, new, says in (
        ("body", b'["other"]', "row 0 does not hold the content that names it"),
        ("raw_id", "0" * 32, "does not hold the rows that name it"),
    ):
        root = tmp_path / column
        problems = broken(root, lambda store, at, c=column, n=new: change(store, at, c, n))  # type: ignore[misc]
        assert any(each.startswith("raw: ") and each.endswith(says) for each in problems), problems


def test_an_unfinished_forgetting_is_named(tmp_path: Path) -> None:
    (problem,) = broken(
        tmp_path, lambda store, at: (store.root / "forgetting.json").write_text("{}")
    )
    assert problem == "an interrupted forgetting is not finished: run `srrag forget root=…`"


def test_records_that_are_neither_documents_nor_rejected_are_named() -> None:
    def told(documents: int, rejected: int) -> list[str]:
        rows = {
            "raw": {"rows_in": 9, "rows_out": 9, "rejected": 1},
            "parsed": {"rows_in": 9, "rows_out": 8, "rejected": 2},
            "documents": {"rows_in": 6, "rows_out": documents, "rejected": rejected},
        }
        problems: list[str] = []
        _verify_documents(rows, problems)
        _verify_documents({"raw": rows["raw"]}, problems)
        return problems

    assert told(6, 0) == told(6, 3) == []
    assert told(5, 0) == ["9 records in, but 5 documents + 3 rejected"]


def test_a_standing_that_is_none_or_of_no_document_is_named(tmp_path: Path) -> None:
    build(tmp_path, DOCUMENTS)
    store = Store(tmp_path)
    stages = store.read_pointer("default")["stages"]
    ids = store.read_part(*of("raw", store, {"stages": stages}))["raw_id"].to_pylist()
    stages |= {"standing": {"fingerprint": "s"}, "notices": {"fingerprint": "n"}}
    path = store.stage_dir("standing", "s") / "standing.parquet"
    path.parent.mkdir(parents=True)

    def told(documents: list[str], standings: list[str]) -> list[str]:
        pq.write_table(pa.table({"doc_id": documents, "standing": standings}), path)
        return list(_verify_standing(store, stages))

    known = min(STANDINGS)
    assert told(ids[:1], [known]) == []
    assert told(ids[:2], [known, "sold"]) == ["standing: 'sold' is no standing"]
    assert told([ids[0], "else"], [known, known]) == [
        "standing: document else is not in this build"
    ]
    del stages["notices"]
    assert list(_verify_standing(store, stages)) == []


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


def test_a_list_of_statuses_is_explained_and_read(tmp_path: Path) -> None:
    build(tmp_path, DOCUMENTS)
    store = Store(tmp_path)
    name = keep_statuses(store, [Notice("pmid:7", "retracted", "", "list")])
    (beside,) = plant(tmp_path, ("statuses/mine.json.bak",))
    assert list(unexplained(store)) == [beside]
    assert verify(store, "default")["problems"] == []
    changed(tmp_path / "statuses" / f"{name}.json")
    (problem,) = verify(store, "default")["problems"]
    assert name in problem and "sha256" in problem


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
