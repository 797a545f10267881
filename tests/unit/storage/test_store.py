from __future__ import annotations

import multiprocessing
from pathlib import Path

import pyarrow as pa
import pytest

from srrag.storage.atomic_write import commit_json
from srrag.storage.store import Receipt, Store


def receipt(sha256: str, num_bytes: int) -> Receipt:
    return Receipt("p", 1, 0, 0, 1, 0, sha256, num_bytes, 0.0)


def test_a_part_stands_with_its_receipt(tmp_path: Path) -> None:
    store = Store(tmp_path)
    done = store.write_part("s", "f", pa.table({"x": [1]}), receipt)
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
