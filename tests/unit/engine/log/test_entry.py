from __future__ import annotations

import json
from dataclasses import asdict

import pyarrow as pa
import pytest

from srrag.engine.log import entry as module
from srrag.engine.log.entry import ENTRY, Entry, entries_to_tables, table_to_entries
from tests.unit.engine.logs import entry, key

FULL = Entry(key(1), 'é a\nb\r\u2028\x00😀"\\', "empty", "why", 7, 3, 0.25, 2, 1.5, "Word", "model")


def test_a_line_is_one_object_of_json_that_gives_its_entry_back() -> None:
    line = FULL.line()
    assert line.endswith(b"}\n") and line.count(b"\n") == 1 and "é".encode() in line
    assert json.loads(line) == asdict(FULL) | {"key": key(1).hex()}
    assert Entry.of_line(line) == FULL


@pytest.mark.parametrize(
    "changed",
    [
        {"text": 1}, {"fault": None}, {"tokens_in": "7"}, {"tokens_in": True}, {"usd": [1.0]},
        {"seconds": {}}, {"more": 1}, {"key": "zz"}, {"key": "00"}, {"task": ["x"]},
    ],
)  # fmt: skip
def test_a_line_of_other_values_is_refused(changed: dict[str, object]) -> None:
    told = json.loads(FULL.line()) | changed
    with pytest.raises(ValueError):
        Entry.of_line(json.dumps(told).encode())
    del told["text"]
    with pytest.raises(ValueError, match="not an entry"):
        Entry.of_line(json.dumps(told).encode())


@pytest.mark.parametrize("line", [b"[1]", b"null", b'"x"', b"7", b"\xff", b"", b"{}"])
def test_a_line_that_is_no_object_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        Entry.of_line(line)


def test_half_a_surrogate_pair_is_replaced_and_a_whole_one_stays() -> None:
    odd = Entry(key(1), "a\ud83db", detail="\udc00")
    assert (odd.text, odd.detail) == ("a\ufffdb", "\ufffd")
    assert Entry.of_line(odd.line()) == odd
    assert Entry(key(1), "a\U0001f600").text == "a\U0001f600"


def test_numbers_that_json_has_not_are_not_written() -> None:
    with pytest.raises(ValueError):
        Entry(key(1), usd=float("nan")).line()


def test_tables_are_sorted_by_key_group_by_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUP_ROWS", 3)
    rows = [entry(number, text=f"{number}") for number in (5, 1, 4, 2, 3)] + [entry(2, "again")]
    tables = list(entries_to_tables(rows))
    assert [table.num_rows for table in tables] == [3, 3] and tables[0].schema.equals(ENTRY)
    for table, group in zip(tables, (rows[:3], rows[3:]), strict=True):
        assert table_to_entries(table) == sorted(group, key=lambda row: row.key)
    twice = [row.text for row in table_to_entries(tables[1]) if row.key == key(2)]
    assert twice == ["2", "again"], "equal keys keep their order"
    assert list(entries_to_tables([])) == []
    assert table_to_entries(pa.concat_tables(entries_to_tables([FULL]))) == [FULL]
