from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.core.schema import UNITS
from srrag.storage.atomic_write import link_or_copy
from srrag.storage.manifest import read_live
from tests.unit.index.tables import REFUSED, row, write


def test_parts_come_in_the_order_given_without_what_was_rejected(tmp_path: Path) -> None:
    first = write(
        [
            row(UNITS, unit_id="b", text="two"),
            row(UNITS, unit_id="x", text="refused", reject=REFUSED),
            row(UNITS, unit_id="a", text="one"),
        ],
        UNITS,
        tmp_path / "first.parquet",
    )
    second = write([row(UNITS, unit_id="c", text="three")], UNITS, tmp_path / "second.parquet")
    none = write([row(UNITS, reject=REFUSED)], UNITS, tmp_path / "none.parquet")
    tables = list(read_live([second, none, first], ("unit_id", "text")))
    assert [table.column_names for table in tables] == [["unit_id", "text"]] * 3
    assert [table["unit_id"].to_pylist() for table in tables] == [["c"], [], ["b", "a"]]


def test_a_relation_without_rejects_is_read_whole(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2], "y": ["a", "b"]}), tmp_path / "p.parquet")
    (table,) = read_live([tmp_path / "p.parquet"], ("y",))
    assert table.to_pydict() == {"y": ["a", "b"]}


def test_a_folder_named_like_a_partition_adds_no_column(tmp_path: Path) -> None:
    folder = tmp_path / "unit_id=5"
    folder.mkdir()
    path = write([row(UNITS, unit_id="a")], UNITS, folder / "p.parquet")
    (table,) = read_live([path], ("unit_id",))
    assert table["unit_id"].to_pylist() == ["a"]


def test_a_file_is_linked_and_where_links_are_none_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("held")
    link_or_copy(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").samefile(tmp_path / "a")

    def refuse(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    link_or_copy(tmp_path / "a", tmp_path / "c")
    assert not (tmp_path / "c").samefile(tmp_path / "a")
    assert (tmp_path / "c").read_text() == "held"
