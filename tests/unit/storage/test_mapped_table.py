from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.storage.mapped_table import MappedTable

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
