from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from srrag.storage.manifest import DamagedError, check_part
from srrag.storage.read_live import read_live
from srrag.storage.store import Store
from tests.unit.storage.test_store import receipt


def written(root: Path) -> tuple[Store, Path]:
    store = Store(root)
    store.write_part("s", "f", pa.table({"x": [1, 2]}), receipt)
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
