"""A root on a real S3 server, with what goes wrong there."""

from __future__ import annotations

import io
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.storage import manifest, mirror, object_store, writer_lock
from srrag.storage.atomic_write import commit_json
from srrag.storage.manifest import read_live
from srrag.storage.store import Store
from tests.bucket import Bucket, s3_server

TABLE = pa.table({"x": list(range(50_000))})


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch, s3_server(patch, cache) as found:
        yield found


@pytest.fixture
def address(bucket: Bucket, request: pytest.FixtureRequest) -> str:
    return f"s3://{bucket.name}/{request.node.name.replace('[', '-').replace(']', '')}"


def elsewhere(address: str) -> Store:
    """The root as another machine sees it: nothing is here."""
    shutil.rmtree(Store(address).root, ignore_errors=True)
    return Store(address)


def test_a_part_written_here_is_read_elsewhere(address: str) -> None:
    store = Store(address)
    store.create()
    done = store.write_part("s", "f", "p", TABLE)
    other = elsewhere(address)
    assert not other.root.exists()
    other.check()
    assert other.has_part("s", "f", "p") and other.parts("s", "f") == {"p"}
    assert other.receipts("s", "f", ["p"]) == [done]
    assert other.read_part("s", "f", "p").equals(TABLE)
    assert str(other) == address


def test_a_part_without_its_receipt_does_not_count(address: str, bucket: Bucket) -> None:
    store = Store(address)
    store.create()
    store.write_part("s", "f", "p", TABLE)
    mirror.remove(store.receipt_path("s", "f", "p"))
    other = elsewhere(address)
    assert other.parts("s", "f") == set() and not other.has_part("s", "f", "p")


def test_what_was_written_again_elsewhere_is_brought_again(address: str) -> None:
    store = Store(address)
    store.create()
    store.write_part("s", "f", "p", TABLE)
    kept = store.root.with_name("kept")
    shutil.copytree(store.root, kept, copy_function=shutil.copy2)
    store.write_part("s", "f", "p", TABLE.slice(0, 7))
    shutil.rmtree(store.root)
    kept.rename(store.root)  # a machine that saw the first version alone
    assert store.read_part("s", "f", "p").num_rows == 7
    store.parts("s", "f")
    assert (
        store.read_receipt("s", "f", "p").num_bytes == store.part_path("s", "f", "p").stat().st_size
    )


def test_a_copy_of_an_older_version_is_no_damage(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(address)
    store.create()
    kept = store.root.with_name("kept")
    for part in ("p", "q"):
        store.write_part("s", "f", part, TABLE)
    shutil.copytree(store.root, kept, copy_function=shutil.copy2)
    for part in ("p", "q"):
        store.write_part("s", "f", part, TABLE.slice(0, 7))
    shutil.rmtree(store.root)
    kept.rename(store.root)  # a machine that saw the first version alone
    monkeypatch.setattr(manifest, "_checked", set())
    mirror.fetch(store.receipt_path("s", "f", "p"))
    mirror.fetch(store.part_path("s", "f", "q"))
    for part in ("p", "q"):
        (table,) = read_live([store.part_path("s", "f", part)], ["x"])
        assert table.num_rows == 7


def test_what_is_gone_from_the_store_goes_from_here(address: str, bucket: Bucket) -> None:
    store = Store(address)
    store.create()
    commit_json(store.pointer_path("default"), {"stages": {}})
    assert store.read_pointer("default") == {"stages": {}}
    path = address.removeprefix(f"s3://{bucket.name}/")
    assert f"{path}/builds/default.json" in bucket.names()
    mirror.store_at(store.root).fs.delete_file(  # type: ignore[union-attr]
        f"{bucket.name}/{path}/builds/default.json"
    )
    with pytest.raises(ValueError, match=f"root={address} holds no finished build 'default'"):
        store.read_pointer("default")


@pytest.mark.parametrize(
    ("kind", "method", "times"),
    [("503", "PUT", 2), ("half", "PUT", 1), ("503", "HEAD", 1), ("hang", "PUT", 1),
     ("503", "GET", 1), ("half", "GET", 2)],
)  # fmt: skip
def test_a_fault_of_the_store_is_outlived(
    address: str, bucket: Bucket, kind: str, method: str, times: int
) -> None:
    store = Store(address)
    store.create()
    reads = method == "GET"
    if not reads:
        bucket.faults.set(kind, method, "part-p", times=times, seconds=1.0)
    store.write_part("s", "f", "p", TABLE)
    if reads:
        bucket.faults.set(kind, method, "part-p", times=times)
    assert elsewhere(address).read_part("s", "f", "p").equals(TABLE)
    assert bucket.faults.hit == times


def test_a_store_that_stays_away_fails_the_write_and_nothing_counts(
    address: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "_ATTEMPTS", 2)
    store = Store(address)
    store.create()
    bucket.faults.set("503", "PUT", "part-p.parquet", times=100)
    with pytest.raises(OSError, match=r"part-p\.parquet"):
        store.write_part("s", "f", "p", TABLE)
    bucket.faults.set("", "", times=0)
    assert not store.part_path("s", "f", "p").exists(), "here neither"
    assert store.parts("s", "f") == set() and not store.has_part("s", "f", "p")
    store.write_part("s", "f", "p", TABLE)
    assert elsewhere(address).read_part("s", "f", "p").equals(TABLE)


def test_a_folder_takes_anothers_place_manifest_last(address: str, bucket: Bucket) -> None:
    store = Store(address)
    store.create()
    final = store.stage_dir("dense", "f")
    for version in (1, 2):
        out = final.with_name(f".f.{version}")
        (out / "deep").mkdir(parents=True)
        (out / f"only-{version}").write_text("x")
        (out / "deep" / "file").write_text(str(version))
        mirror.put(out / "deep" / "file")  # as a task of another node does
        commit_json(out / "manifest.json", {"version": version})
        bucket.faults.requests.clear()
        mirror.move_folder(out, final)
        mirror.remove_folder(out)
    assert mirror.files(final) == {"only-2", "deep/file", "manifest.json"}
    assert not [name for name in bucket.names() if "/.f." in name]
    shutil.rmtree(store.root)
    assert (mirror.pull_build(final) / "deep" / "file").read_text() == "2"
    before = (final / "deep" / "file").stat().st_ino
    (final / "only-2").unlink()
    mirror.pull_build(final)
    assert (final / "only-2").exists(), "what was deleted here is brought again"
    assert (final / "deep" / "file").stat().st_ino == before, "what is current is not"


@pytest.fixture
def lockable(address: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> tuple[Store, str]:
    """A root whose lock settles quickly, and the key of the object that is its lock."""
    monkeypatch.setattr(writer_lock, "SETTLE_S", 0.1)
    store = Store(address)
    store.create()
    return store, f"{address.removeprefix(f's3://{bucket.name}/')}/.lock.json"


def test_one_writer_at_a_time(lockable: tuple[Store, str], bucket: Bucket) -> None:
    store, key = lockable
    with store.lock():
        mine = bucket.read(key)
        (store.root / ".lock").unlink()  # another machine has a file of its own
        written = f"root={store} is being written by process"
        with pytest.raises(ValueError, match=written), store.lock():
            pass
        bucket.write(key, mine.replace(b'"token": "', b'"token": "other'))
        with pytest.raises(RuntimeError, match="was taken over by process"):
            store.write_pointer("default", {"stages": {}})
    bucket.write(key, b"{}")
    with pytest.raises(ValueError, match=r"\.lock\.json is damaged"), store.lock():
        pass
    mirror.remove(store.root / ".lock.json")
    with store.lock():
        store.write_pointer("default", {"stages": {}})
    assert key not in bucket.names()


def test_a_writer_that_died_on_another_machine_is_succeeded(
    lockable: tuple[Store, str], bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, key = lockable
    with store.lock():
        held = bucket.read(key)
    bucket.write(key, held.replace(b'"machine": "', b'"machine": "other '))
    with pytest.raises(ValueError, match="is being written by"), store.lock():
        pass
    monkeypatch.setattr(writer_lock, "STALE_S", 0.0)
    with store.lock():
        pass


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("ftp://host/x", "ftp://host/x: not a folder"),
        ("s3://key:secret@bucket/x", "an address holds no keys"),
        ("s3:///x", "not a folder"),
        ("s3://b/" + 300 * "x", "too long"),
    ],
)
def test_addresses_that_cannot_be_a_root_are_refused(wrong: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        Store(wrong)
    assert "secret" not in str(error.value)


def test_a_query_is_of_the_address_and_unknown_keys_are_refused(
    address: str, bucket: Bucket
) -> None:
    store = Store(f"{address}?region=eu-central-1")
    store.create()
    assert str(store) == address and bucket.names(address.rpartition("/")[2])
    with pytest.raises(ValueError, match="an address holds no keys"):
        Store(f"{address}?secret_key=x").create()


def test_who_took_the_root_over_in_the_same_second_is_seen(address: str, bucket: Bucket) -> None:
    store = Store(address)
    store.create()
    mine = writer_lock._StoreLock(store.root)
    mine._write()
    key = f"{address.removeprefix(f's3://{bucket.name}/')}/.lock.json"
    other = bucket.read(key).replace(mine.token.encode(), b"f" * 32)  # as long
    bucket.write(key, other)
    os.utime(mine.path, (time.time() + 9, time.time() + 9))  # and, here, not older
    with pytest.raises(RuntimeError, match="was taken over"):
        mine.check()


def test_what_others_put_while_a_root_is_held_whole_stays(address: str, bucket: Bucket) -> None:
    store = Store(address)
    store.create()
    store.write_part("s", "f", "p", TABLE)
    path = address.removeprefix(f"s3://{bucket.name}/")
    with store.lock(), store.whole():
        bucket.write(f"{path}/jobs/serve/feedback.other.jsonl", b"{}")
        store.part_path("s", "f", "p").unlink()
    left = bucket.names(path)
    assert f"{path}/jobs/serve/feedback.other.jsonl" in left
    assert f"{path}/stages/s/f/part-p.parquet" not in left


def test_outputs_of_an_earlier_run_are_not_put_again(address: str, bucket: Bucket) -> None:
    out = Store(address).root / "jobs" / "sweep"
    out.mkdir(parents=True)
    for name in ("forgotten", "changed"):
        (out / name).write_text("old")
    mirror.join(out)
    path = address.removeprefix(f"s3://{bucket.name}/")
    mirror.store_at(out).remove(out / "forgotten")  # type: ignore[union-attr]
    bucket.write(f"{path}/jobs/sweep/changed", b"newer")
    time.sleep(0.1)
    began = time.time()
    time.sleep(0.1)
    (out / "new").write_text("x")
    mirror.join(out, began)
    assert f"{path}/jobs/sweep/forgotten" not in bucket.names(path)
    assert bucket.read(f"{path}/jobs/sweep/changed") == b"newer"
    assert bucket.read(f"{path}/jobs/sweep/new") == b"x"


def test_a_put_that_is_broken_off_leaves_no_half(
    address: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "_BLOCK_BYTES", 4 << 20)
    path = Store(address).root / "large"
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(24 << 20))
    store = mirror.store_at(path)
    assert store is not None

    class Interrupted(io.BytesIO):
        """A source that a signal breaks off after its first 16 MiB."""

        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() >= 16 << 20:
                raise KeyboardInterrupt
            return super().read(size)

    monkeypatch.setattr(Path, "open", lambda *_: Interrupted(bytes(24 << 20)))
    with pytest.raises(KeyboardInterrupt):
        store.put(path, path)
    assert not mirror.exists(path)


def test_no_name_of_an_object_leads_out_of_the_folder(address: str, bucket: Bucket) -> None:
    store = Store(address)
    store.create()
    path = address.removeprefix(f"s3://{bucket.name}/")
    bucket.write(f"{path}/builds/../../evil", b"x")
    bucket.write("evil", b"x")
    with pytest.raises(ValueError, match=r"\.\./evil' is no name of a file"):
        store.check()
    assert not (store.root.parent / "evil").exists()


@pytest.mark.parametrize("address", ["s3://b/x", "abfs://box@account/x", "s3://b/x?region=eu"])
def test_a_message_names_the_address_and_not_its_folder_here(address: str) -> None:
    folder = mirror.located(address)
    assert mirror.worded(f"{folder}/a.json: cut ({folder})") == f"{address}/a.json: cut ({address})"
    plain = "/somewhere/s3/a.json: cut, 100%3A1"
    assert mirror.worded(plain) == plain


def full(folder: Path, text: str = "x") -> Path:
    (folder / "inner").mkdir(parents=True)
    for name in ("a", "b", "inner/c"):
        (folder / name).write_text(text)
    return folder


def test_a_folder_loses_its_name_before_anything_in_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = full(tmp_path / "stages" / "s" / "f")

    def killed(*args: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            mirror.discard(folder)
    assert not folder.exists()
    (left,) = mirror.trash_below(tmp_path)
    assert sorted(path.name for path in left.rglob("*") if path.is_file()) == ["a", "b", "c"]
    assert mirror.finish(tmp_path) == 1
    assert [*folder.parent.iterdir()] == []
    mirror.discard(folder)


def test_a_folder_takes_anothers_place(tmp_path: Path) -> None:
    old, new = full(tmp_path / "old", "old"), full(tmp_path / "new", "new")
    mirror.swap(new, old)
    assert (old / "inner" / "c").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    mirror.swap(old, tmp_path / "free")
    assert [path.name for path in tmp_path.iterdir()] == ["free"]
