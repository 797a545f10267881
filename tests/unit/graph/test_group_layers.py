"""Tables of groups in layers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from srrag.graph import group_layers
from srrag.graph.group_layers import read_groups, write_groups

SCHEMA = pa.schema([("group", pa.string()), ("value", pa.int64())])
FIRST = {"a": [1, 2], "b": [3], "c": [4, 5, 6], "d": [7, 8, 9, 10]}


def table(groups: dict[str, list[int]]) -> pa.Table:
    rows = [{"group": name, "value": value} for name, values in groups.items() for value in values]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def held(path: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in read_groups(path, "group").to_pylist():
        found.setdefault(row["group"], []).append(row["value"])
    return found


def written(folder: Path, groups: dict[str, list[int]], former: Path | None = None) -> int:
    folder.mkdir()
    before = None if former is None else former / "t.parquet"
    return write_groups(table(groups), "group", folder / "t.parquet", before)


def test_an_update_writes_the_groups_that_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_layers, "_MOST_STALE", 1.0)  # so small a table is soon stale
    assert written(tmp_path / "0", FIRST) == 4
    grown = {**FIRST, "b": [3, 11], "e": [12]}
    assert written(tmp_path / "1", grown, tmp_path / "0") == 2
    assert held(tmp_path / "1" / "t.parquet") == grown
    assert (tmp_path / "0" / "t.parquet").samefile(tmp_path / "1" / "t.parquet")
    fewer = {name: values for name, values in grown.items() if name not in ("a", "e")}
    back = {**fewer, "b": [3]}
    assert written(tmp_path / "2", back, tmp_path / "1") == 1
    assert held(tmp_path / "2" / "t.parquet") == back
    again = {**back, "a": [1, 2]}
    assert written(tmp_path / "3", again, tmp_path / "2") == 1
    assert held(tmp_path / "3" / "t.parquet") == again, "a group may come back"


def test_the_order_within_a_group_counts_and_that_of_groups_does_not(tmp_path: Path) -> None:
    written(tmp_path / "0", FIRST)
    assert written(tmp_path / "1", dict(reversed(FIRST.items())), tmp_path / "0") == 0
    assert written(tmp_path / "2", {**FIRST, "a": [2, 1]}, tmp_path / "1") == 1
    assert held(tmp_path / "2" / "t.parquet") == {**FIRST, "a": [2, 1]}


def test_only_some_columns_and_rows_are_read(tmp_path: Path) -> None:
    written(tmp_path / "0", FIRST)
    written(tmp_path / "1", {**FIRST, "a": [2]}, tmp_path / "0")
    path = tmp_path / "1" / "t.parquet"
    some = read_groups(path, "group", ["value"], [("value", "<", 4)])
    assert some.to_pydict() == {"value": [3, 2]}


@pytest.mark.parametrize(("name", "bound"), [("_MOST_STALE", 0.1), ("_MOST_LAYERS", 1)])
def test_what_became_stale_or_long_is_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, bound: float
) -> None:
    monkeypatch.setattr(group_layers, name, bound)
    written(tmp_path / "0", FIRST)
    changed = {**FIRST, "a": [2, 3]}
    assert written(tmp_path / "1", changed, tmp_path / "0") == 4
    assert held(tmp_path / "1" / "t.parquet") == changed
    assert not (tmp_path / "1" / "t.layers.json").exists()
