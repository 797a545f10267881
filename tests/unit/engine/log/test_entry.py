from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.engine.log import entry as module
from srrag.engine.log.entry import (
    ENTRY,
    Entry,
    entries_to_tables,
    faults_file,
    journal_file,
    list_log,
    names_in,
    new_name,
    next_name,
    part_file,
    read_receipt,
    receipt_file,
    table_to_entries,
)
from srrag.storage.manifest import DamagedError
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


OLD, NEW = (f"{ms:015d}-{'0' * 32}" for ms in (1, 2))
RECEIPT: dict[str, Any] = {
    "completions": 2, "faults": {"empty": 1, "refusal": 3}, "tokens_in": 1, "tokens_out": 1,
    "usd": 0.0, "sha256": {}, "replaces": [],
}  # fmt: skip


def plant(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch()


def told(folder: Path, name: str, **values: Any) -> None:
    (folder / receipt_file(name)).write_text(json.dumps(RECEIPT | values))


def test_names_sort_by_time_and_never_before_what_stands() -> None:
    assert new_name(7)[:16] == "000000000000007-" and len(new_name(7)) == module.BASE_CHARS
    assert new_name(7, after=new_name(5))[:15] == f"{7:015d}"
    assert new_name(5, after=new_name(7))[:15] == f"{8:015d}", "the clock went back"


def test_a_replacement_sorts_right_after_what_it_replaces() -> None:
    first = next_name(OLD)
    assert first == f"{OLD}-000001" and next_name(first) == f"{OLD}-000002"
    assert sorted([NEW, next_name(first), OLD, first]) == [OLD, first, next_name(first), NEW]


def test_what_is_sealed_or_replaced_is_not_listed(tmp_path: Path) -> None:
    joint = next_name(NEW)
    plant(tmp_path, *map(part_file, (OLD, NEW, joint)), *map(faults_file, (OLD, joint, "none")))
    plant(tmp_path, *map(journal_file, (NEW, "9" * 48, "8" * 48)), "part-x.json", ".part-y.parquet")
    told(tmp_path, joint, replaces=[OLD, NEW])
    found = list_log(tmp_path)
    assert (found.parts, found.faults) == ((joint,), {joint})
    assert found.journals == ("8" * 48, "9" * 48)
    assert list(found.files()) == [part_file(joint), faults_file(joint)]
    (tmp_path / faults_file(joint)).unlink()
    assert list(list_log(tmp_path).files()) == [part_file(joint)]


def test_an_absent_folder_holds_nothing(tmp_path: Path) -> None:
    assert names_in(tmp_path / "none") == (set(), set(), set())
    assert list_log(tmp_path / "none") == module.Listing()


def test_a_folder_is_listed_again_until_it_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [{journal_file("a")}, {part_file("a")}, {part_file("a")}]
    monkeypatch.setattr(module, "_scan", lambda folder: seen.pop(0))
    assert names_in(tmp_path) == ({"a"}, set(), set()) and seen == []


def test_a_part_that_is_replaced_while_it_is_listed_is_left_to_its_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, there = f"{OLD}-000001", f"{OLD}-000002"
    told(tmp_path, there, replaces=[gone])
    scans = [{part_file(gone)}] * 2 + [{part_file(there)}] * 4
    monkeypatch.setattr(module, "_scan", lambda folder: scans.pop(0))
    assert list_log(tmp_path).parts == (there,)


def test_a_receipt_names_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match=rf"{receipt_file(OLD)} is missing; .*repair=true"):
        read_receipt(tmp_path, OLD)
    told(tmp_path, OLD)
    assert read_receipt(tmp_path, OLD).rows == 6
    for text in ("", "[]", json.dumps(RECEIPT | {"more": 1}), json.dumps(RECEIPT | {"usd": "1"})):
        (tmp_path / receipt_file(NEW)).write_text(text)
        with pytest.raises(DamagedError, match=rf"{receipt_file(NEW)}: not a receipt"):
            read_receipt(tmp_path, NEW)
    plant(tmp_path, part_file(f"{NEW}-000001"))
    with pytest.raises(DamagedError, match="is missing"):
        list_log(tmp_path)


def test_parts_and_journals_are_listed_in_their_order(tmp_path: Path) -> None:
    names = [new_name(ms) for ms in range(12, 0, -1)]
    plant(tmp_path, *map(part_file, names[:6]), *map(journal_file, names[6:]))
    found = list_log(tmp_path)
    assert found.parts == tuple(sorted(names[:6]))
    assert found.journals == tuple(sorted(names[6:]))
