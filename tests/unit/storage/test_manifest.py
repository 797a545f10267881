from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from srrag.core.spec import file_sha256
from srrag.storage import manifest
from srrag.storage.atomic_write import commit_json
from srrag.storage.manifest import (
    DamagedError,
    check_files,
    check_part,
    manifest_files,
    read_live,
    stamps,
)
from srrag.storage.store import Store
from srrag.storage.writer_lock import STALE_S, Heartbeat, ProcessIdentity


def written(root: Path) -> tuple[Store, Path]:
    store = Store(root)
    store.write_part("s", "f", "p", pa.table({"x": [1, 2]}))
    return store, store.part_path("s", "f", "p")


def test_a_part_is_held_against_its_receipt_when_it_is_read(tmp_path: Path) -> None:
    store, path = written(tmp_path)
    check_part(path)
    data = path.read_bytes()
    path.write_bytes(data[:20] + bytes([data[20] ^ 1]) + data[21:])
    for read in (
        lambda: check_part(path),
        lambda: store.read_part("s", "f", "p"),
        lambda: list(read_live([path], ["x"])),
    ):
        with pytest.raises(DamagedError, match=r"part-p.parquet is not what was written.*repair="):
            read()
    path.write_bytes(data)
    assert store.read_part("s", "f", "p")["x"].to_pylist() == [1, 2]


def test_a_part_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    store, path = written(tmp_path)
    path.write_bytes(b"")
    with pytest.raises(DamagedError, match=r"part-p.parquet is damaged .*repair=true"):
        store.read_part("s", "f", "p", checked=False)
    path.unlink()
    with pytest.raises(DamagedError, match=r"part-p.parquet is missing"):
        check_part(path)


def test_a_part_whose_receipt_is_none_is_not_read(tmp_path: Path) -> None:
    _, path = written(tmp_path)
    path.with_suffix(".json").write_text("[]")
    path.touch()
    with pytest.raises(DamagedError, match=r"part-p.json: not a receipt"):
        check_part(path)
    path.with_suffix(".json").unlink()
    check_part(path)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"files": []}', '{"files": ["a"]}', '{"files": {}}']
)
def test_a_manifest_without_files_is_damage(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DamagedError, match=r"manifest.json.*repair=true"):
        manifest_files(tmp_path)


def built(folder: Path) -> Path:
    """A build of two files."""
    for name in ("a", "b"):
        (folder / name).write_text(name)
    files = {name: file_sha256(folder / name) for name in ("a", "b")}
    commit_json(folder / "manifest.json", {"files": files})
    return folder


def test_every_file_of_a_build_is_held_against_its_manifest(tmp_path: Path) -> None:
    folder = built(tmp_path)
    assert manifest_files(folder).keys() == {"a", "b"}
    check_files(folder)
    for name in ("a", "b"):
        (folder / name).write_text("other")
        with pytest.raises(ValueError, match=rf"{name} is not what was built \(sha256 differs\)"):
            check_files(folder)
        (folder / name).unlink()
        with pytest.raises(ValueError, match=rf"{name} is missing; run the build again"):
            check_files(folder)
        (folder / name).write_text(name)
        check_files(folder)


def test_of_some_files_only_those_are_looked_at(tmp_path: Path) -> None:
    folder = built(tmp_path)
    (folder / "a").unlink()
    check_files(folder, lambda name: name == "b")
    (folder / "b").write_text("other")
    check_files(folder, lambda name: False)
    with pytest.raises(ValueError, match="b is not what was built"):
        check_files(folder, lambda name: name == "b")


def test_what_a_store_holds_is_brought_before_it_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = built(tmp_path)
    texts = {name: (folder / name).read_text() for name in ("a", "b", "manifest.json")}
    (folder / "of another version").touch()

    def pull(folder: Path, wanted: Callable[[str], bool], *, alone: bool) -> None:
        for path in folder.iterdir():
            if alone and path.name not in texts:
                path.unlink()
        for name in filter(wanted, texts):
            (folder / name).write_text(texts[name])

    monkeypatch.setattr(manifest.mirror, "pull", pull)
    (folder / "a").unlink()
    (folder / "b").unlink()
    check_files(folder, lambda name: name == "b")
    assert {path.name for path in folder.iterdir()} == {"b", "manifest.json", "of another version"}
    check_files(folder)
    assert {path.name for path in folder.iterdir()} == {"a", "b", "manifest.json"}


def test_a_file_is_hashed_once_in_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []

    def counted(path: Path) -> str:
        hashed.append(path.name)
        return file_sha256(path)

    folder = built(tmp_path)
    _, part = written(tmp_path / "store")
    monkeypatch.setattr(manifest, "file_sha256", counted)
    for _ in range(3):
        check_files(folder)
        check_part(part)  # hashed when it was written
    assert sorted(hashed) == ["a", "b"]
    part.touch()
    check_part(part)
    check_part(part)
    assert hashed[2:] == ["part-p.parquet"]


def test_a_large_file_is_known_by_its_size_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening does not read what nobody touched; whoever touches it has it read."""
    monkeypatch.setattr(manifest, "STAMPED_BYTES", 0)
    folder = built(tmp_path)
    told = {"files": manifest_files(folder), "stamps": stamps(folder, ["a"])}
    commit_json(folder / "manifest.json", told, sealed=True)
    before = (folder / "a").stat().st_mtime_ns
    (folder / "a").write_text("z")
    os.utime(folder / "a", ns=(before, before))
    check_files(folder)
    with pytest.raises(ValueError, match="a is not what was built"):
        check_files(folder, read=True)
    os.utime(folder / "a", ns=(before, before + 1))
    with pytest.raises(ValueError, match="a is not what was built"):
        check_files(folder)


def test_a_link_is_known_by_its_size_and_time(tmp_path: Path) -> None:
    """Small as each is, the parts that an index links are a whole corpus."""
    folder = built(tmp_path)
    os.link(folder / "a", tmp_path / "linked")
    assert stamps(folder, ["a", "b"]).keys() == {"a"}


ELSEWHERE = replace(ProcessIdentity.this(), machine="another", host="far")


def test_a_heartbeat_renews_until_it_is_stopped() -> None:
    beaten, beats = threading.Event(), []

    def renew() -> bool:
        beats.append(1)
        if len(beats) == 1:
            raise OSError("the store is away for once")
        beaten.set()
        return True

    heartbeat = Heartbeat("test", 0.001, renew)
    assert beaten.wait(60)
    heartbeat.stop()
    count = len(beats)
    assert count >= 2
    assert not threading.Event().wait(0.01) and len(beats) == count


def test_a_lost_lease_is_not_renewed() -> None:
    beats: list[int] = []
    heartbeat = Heartbeat("test", 0.001, lambda: bool(beats.append(1)))  # type: ignore[func-returns-value]
    heartbeat._thread.join(60)
    assert beats == [1]
    heartbeat.stop()


def test_a_live_holder_is_named() -> None:
    with pytest.raises(ValueError, match=r"^root=R is being written by process \d+ on far"):
        ELSEWHERE.check_ended("root=R", age_s=5)
    ELSEWHERE.check_ended("root=R", age_s=STALE_S)
