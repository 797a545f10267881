from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.storage.mapped_table import Lookup, MappedTable, id_keys, write_lookup
from tests.unit.index.tables import hashed, uid

LONG = "x" * (1 << 20)


@settings(deadline=None)
@given(st.lists(st.lists(st.text(max_size=3), max_size=4), max_size=5), st.data())
def test_rows_are_those_of_arrow(batches: list[list[str]], data: st.DataObject) -> None:
    column = pa.chunked_array(batches, pa.string())
    table = pa.table({"text": column, "n": pa.array(range(len(column)), pa.int32())})
    places = st.integers(0, max(0, len(column) - 1))
    rows = data.draw(st.lists(places, max_size=6 if len(column) else 0))
    found = MappedTable(table).take(np.array(rows, np.int64))
    assert found.equals(table.take(pa.array(rows, pa.int64())))


def test_a_column_may_hold_more_than_two_gigabytes() -> None:
    batch = pa.record_batch({"text": [LONG] * 64})
    table = pa.Table.from_batches([batch] * 40 + [pa.record_batch({"text": ["last"]})])
    assert table.nbytes > 2**31
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        table.take(pa.array([0]))
    mapped = MappedTable(table)
    assert mapped.take_column(np.array([2560, 0]), "text").to_pylist() == ["last", LONG]


@pytest.mark.parametrize("row", [-1, 3])
def test_a_row_that_is_not_there_is_refused(row: int, tmp_path: Path) -> None:
    table = pa.table({"text": ["a", "b", "c"]})
    with pa.ipc.new_file(str(tmp_path / "t.arrow"), table.schema) as file:
        file.write_table(table)
    mapped = MappedTable.at(tmp_path / "t.arrow")
    assert len(mapped) == 3
    with pytest.raises(IndexError, match="of 3"):
        mapped.take(np.array([0, row]))


def test_finds_rows_in_the_order_asked(tmp_path: Path) -> None:
    ids = [uid(9), uid(2), uid(5)]
    write_lookup(ids, tmp_path, "units")
    lookup = Lookup(tmp_path, "units")
    assert lookup.find([uid(5), uid(9), uid(5), uid(2)]).tolist() == [2, 0, 2, 1]
    assert lookup.find([]).tolist() == []


@pytest.mark.parametrize("absent", [uid(0), uid(3), uid(2**63)])
def test_an_unknown_id_is_named(tmp_path: Path, absent: str) -> None:
    """Below, between and above the ids that are there."""
    write_lookup([uid(2), uid(9)], tmp_path, "units")
    with pytest.raises(ValueError, match=f"{absent} is not in this index"):
        Lookup(tmp_path, "units").find([uid(2), absent])


def test_the_same_id_twice_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{uid(7)} occurs twice"):
        write_lookup([uid(7), uid(1), uid(7)], tmp_path, "units")


def test_an_empty_lookup_knows_no_id(tmp_path: Path) -> None:
    write_lookup([], tmp_path, "units")
    lookup = Lookup(tmp_path, "units")
    assert lookup.find([]).tolist() == []
    with pytest.raises(ValueError, match=f"{uid(1)} is not in this index"):
        lookup.find([uid(1)])


def test_keys_are_the_first_64_bits() -> None:
    assert id_keys(["00000000000000ff" + "f" * 16, "f" * 32]).tolist() == [255, 2**64 - 1]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 10**6), unique=True, max_size=40), st.randoms())
def test_every_row_is_found(numbers: list[int], random: object) -> None:
    ids = [hashed(number) for number in numbers]
    with tempfile.TemporaryDirectory() as folder:
        write_lookup(ids, Path(folder), "x")
        lookup = Lookup(Path(folder), "x")
        order = list(range(len(ids)))
        random.shuffle(order)  # type: ignore[attr-defined]
        assert lookup.find([ids[row] for row in order]).tolist() == order
