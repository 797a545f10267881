from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from srrag.storage import mirror, writer_lock
from srrag.storage.atomic_write import commit_json, read_json
from srrag.storage.manifest import DamagedError
from srrag.storage.store import Store


def test_a_part_stands_with_its_receipt(tmp_path: Path) -> None:
    store = Store(tmp_path)
    done = store.write_part("s", "f", "p", pa.table({"x": [1]}))
    assert store.parts("s", "f") == {"p"}
    assert store.read_receipt("s", "f", "p") == done
    assert done.num_bytes == store.part_path("s", "f", "p").stat().st_size
    assert store.read_part("s", "f", "p")["x"].to_pylist() == [1]


def test_a_root_of_another_layout_is_refused(tmp_path: Path) -> None:
    Store(tmp_path).create()
    commit_json(tmp_path / "srrag.json", {"layout": 99})
    with pytest.raises(ValueError, match="layout 99"):
        Store(tmp_path).check()


def test_a_folder_of_others_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_text("x")
    with pytest.raises(ValueError, match="not ours"):
        Store(tmp_path).create()


def test_a_root_without_a_build_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no build"):
        Store(tmp_path).read_pointer("default")
    Store(tmp_path).create()
    with pytest.raises(ValueError, match="no finished build 'default'"):
        Store(tmp_path).read_pointer("default")


def test_addresses_that_are_no_folder_are_refused() -> None:
    with pytest.raises(ValueError, match="ftp://host"):
        Store("ftp://host/x")


def _try_lock(root: Path, queue: multiprocessing.Queue[str]) -> None:
    try:
        with Store(root).lock():
            queue.put("taken")
    except ValueError as error:
        queue.put(str(error))


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create()
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.Queue[str] = context.Queue()
    with store.lock():
        process = context.Process(target=_try_lock, args=(tmp_path, queue))
        process.start()
        assert "is being written by process" in queue.get(timeout=60)
        process.join()
    process = context.Process(target=_try_lock, args=(tmp_path, queue))
    process.start()
    assert queue.get(timeout=60) == "taken"
    process.join()


def test_a_part_without_receipt_or_data_does_not_count(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for part in ("data", "told", "both"):
        store.write_part("s", "f", part, pa.table({"x": [1]}))
    (store.receipt_path("s", "f", "data")).unlink()
    (store.part_path("s", "f", "told")).unlink()
    (tmp_path / "stages/s/f/.part-both.json").write_text("{}")
    assert [store.has_part("s", "f", part) for part in ("data", "told", "both")] == [
        False, False, True,
    ]  # fmt: skip
    assert store.parts("s", "f") == {"both"}
    assert [receipt.part for receipt in store.receipts("s", "f", ["both"])] == ["both"]
    with pytest.raises(ValueError, match=r"part-data.json is missing; the same build command"):
        store.read_receipt("s", "f", "data")
    store.drop_part("s", "f", "both")
    assert sorted(path.name for path in store.stage_dir("s", "f").glob("part-*")) == [
        "part-data.parquet", "part-told.json",
    ]  # fmt: skip


def test_a_part_is_held_against_its_receipt_unless_it_is_only_shown(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write_part("s", "f", "p", pa.table({"x": [1]}))
    other = Store(tmp_path / "other")
    other.write_part("s", "f", "p", pa.table({"x": [2]}))
    path = store.part_path("s", "f", "p")
    path.write_bytes(other.part_path("s", "f", "p").read_bytes())
    assert store.read_part("s", "f", "p", checked=False)["x"].to_pylist() == [2]
    with pytest.raises(DamagedError, match=r"sha256 differs.*repair=true"):
        store.read_part("s", "f", "p")
    path.write_bytes(b"")
    with pytest.raises(DamagedError, match=r"part-p.parquet is damaged \("):
        store.read_part("s", "f", "p", checked=False)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        store.read_part("s", "f", "p", checked=False)


def test_a_receipt_of_former_data_goes_before_the_data_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    store.write_part("s", "f", "p", pa.table({"x": [1]}))

    def killed(path: Path) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("srrag.storage.store.file_sha256", killed)
    with pytest.raises(KeyboardInterrupt):
        store.write_part("s", "f", "p", pa.table({"x": [2]}))
    assert not store.has_part("s", "f", "p")


STAGES = {
    "raw": {"fingerprint": "a", "parts": ["p"]},
    "dense": {"fingerprint": "b", "inputs": ["raw"]},
}


def test_a_pointer_is_read_as_it_was_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create()
    store.write_pointer("default", {"stages": STAGES})
    assert store.read_pointer("default")["stages"] == STAGES
    folders = {
        name: path.relative_to(tmp_path) for name, path in store.artifacts("default").items()
    }
    assert folders == {"raw": Path("stages/raw/a"), "dense": Path("stages/dense/b")}


@pytest.mark.parametrize(
    "pointer",
    [
        [],
        {},
        {"stages": []},
        {"stages": {"raw": None}},
        {"stages": {"raw": {}}},
        {"stages": {"raw": {"fingerprint": 1}}},
        {"stages": {"raw": {"fingerprint": "a", "parts": "p"}}},
        {"stages": {"raw": {"fingerprint": "a", "inputs": "p"}}},
        {"stages": {**STAGES, "units": {"fingerprint": None}}},
    ],
)
def test_what_has_not_the_form_of_a_pointer_is_damage(tmp_path: Path, pointer: object) -> None:
    store = Store(tmp_path)
    store.create()
    commit_json(store.pointer_path("default"), pointer)
    with pytest.raises(DamagedError, match=r"default.json: not the pointer of a build; .*repair"):
        store.read_pointer("default")


def test_a_run_that_lost_the_root_swaps_no_pointer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(root: Path) -> None:
        raise RuntimeError(f"{root} was taken over")

    store = Store(tmp_path)
    store.create()
    monkeypatch.setattr(writer_lock, "check_held", lost)
    with pytest.raises(RuntimeError, match="taken over"):
        store.write_pointer("default", {"stages": STAGES})
    assert not store.pointer_path("default").exists()


def test_what_says_that_others_stand_ends_with_its_own_hash(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create()
    store.write_part("raw", "a", "p", pa.table({"x": [1]}))
    store.write_pointer("default", {"stages": STAGES})
    told = (tmp_path / "srrag.json", store.receipt_path("raw", "a", "p"))
    for path in (*told, store.pointer_path("default")):
        text = path.read_text("utf-8")
        assert '"_sha256"' in text
        path.write_text(text.replace("1", "7", 1).replace('"a"', '"b"', 1))
        with pytest.raises(ValueError, match="its sha256 differs"):
            read_json(path)


def test_contents_are_the_hashes_of_parts_and_of_files(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create()
    done = store.write_part("raw", "a", "p", pa.table({"x": [1]}))
    commit_json(store.stage_dir("dense", "b") / "manifest.json", {"files": {"index": "0f"}})
    store.write_pointer("default", {"stages": STAGES})
    raw, dense = ["a", {"p": done.sha256}], ["b", {"index": "0f"}]
    assert store.contents("default") == {"raw": raw, "dense": dense}
    assert store.contents("default", ["dense"]) == {"dense": dense}
    assert store.contents("default", []) == {}


def test_a_root_that_is_a_file_or_no_marker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="is a file, not a folder"):
        Store(tmp_path / "file").create()
    for text in ("[]", "{}", ""):
        (tmp_path / "srrag.json").write_text(text)
        with pytest.raises(DamagedError, match=r"srrag.json: not the marker of a root"):
            Store(tmp_path).check()


class Away:
    """A store elsewhere that holds files of a root; notes what it is asked to bring and to drop."""

    def __init__(self, names: set[str]) -> None:
        self.names, self.brought, self.dropped = names, [], set()  # type: ignore[var-annotated]

    def pull(
        self, folder: Path, wanted: Callable[[str], bool] = bool, *,
        recursive: bool = True, alone: bool = True,
    ) -> set[str]:  # fmt: skip
        self.brought += [(folder.name, name, alone) for name in sorted(filter(wanted, self.names))]
        return self.names

    def match(self, folder: Path, names: set[str]) -> None:
        self.dropped |= {f"{folder.name}/{name}" for name in names if not (folder / name).exists()}


def test_a_first_run_that_was_killed_leaves_a_root_that_can_be_made(tmp_path: Path) -> None:
    left = tmp_path / f".srrag.json.{'0' * 32}"
    left.touch()
    Store(tmp_path).create()
    Store(tmp_path).check()
    other = tmp_path / "other"
    other.mkdir()
    (other / ".srrag.json.bak").touch()
    with pytest.raises(ValueError, match="not ours"):
        Store(other).create()


def test_receipts_are_brought_and_parts_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    done = store.write_part("s", "f", "p", pa.table({"x": [1]}))
    away = Away({"part-p.parquet", "part-p.json", "part-q.json", "manifest.json"})
    monkeypatch.setattr(mirror, "pull", away.pull)
    assert store.receipts("s", "f", ["p"]) == [done]
    assert away.brought == [("f", "part-p.json", True), ("f", "part-q.json", True)]


def test_what_is_deleted_while_a_root_is_held_whole_is_deleted_on_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, away = Store(tmp_path), Away({"kept", "gone"})
    with store.whole():
        pass  # of a plain folder nothing is asked
    monkeypatch.setattr(mirror, "store_at", lambda path: away)
    monkeypatch.setattr(mirror, "files", lambda folder: away.names)
    monkeypatch.setattr(mirror, "pull", away.pull)
    monkeypatch.setattr(mirror, "match", away.match)
    with store.whole():
        assert [(name, alone) for name, _, alone in away.brought[::2]] == [
            ("stages", True), ("builds", True), ("jobs", False), ("statuses", True),
        ]  # fmt: skip
        for folder in ("stages", "builds", "jobs", "statuses"):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "kept").touch()
    assert away.dropped == {"stages/gone", "builds/gone", "jobs/gone", "statuses/gone"}
    away.dropped.clear()

    def lost(root: Path) -> None:
        raise RuntimeError(f"{root} was taken over")

    monkeypatch.setattr(writer_lock, "check_held", lost)
    with pytest.raises(RuntimeError, match="taken over"), store.whole():
        pass
    assert not away.dropped, "who lost the root deletes nothing of another run"
