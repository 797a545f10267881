"""Sealed files: what is written, read, merged and removed, and in which order."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.engine.log import parts as module
from srrag.engine.log.entry import ENTRY, Entry, entries_to_tables, table_to_entries
from srrag.engine.log.listing import faults_file, journal_file, part_file, receipt_file
from srrag.engine.log.parts import Groups, open_part, replace, seal, write_part
from srrag.storage.manifest import DamagedError
from tests.unit.engine.logs import entry, key

ONE, TWO, SIX = (f"{ms:015d}-{'0' * 32}" for ms in (1, 2, 6))


def held(folder: Path, file: str) -> list[list[Entry]]:
    """The entries of each row group."""
    with open_part(folder / file) as part:
        return [table_to_entries(part.read_row_group(n)) for n in range(part.num_row_groups)]


def by_key(*entries: Entry) -> list[Entry]:
    return sorted(entries, key=lambda each: each.key)


def test_a_journal_is_sealed_under_its_name_with_what_it_cost(tmp_path: Path) -> None:
    rows = [entry(1, usd=1), entry(2, fault="x"), entry(3, usd=2), entry(4, fault="empty", usd=4)]
    rows.append(entry(5, fault="x"))
    (tmp_path / journal_file(ONE)).touch()
    seal(tmp_path, ONE, rows)
    assert {path.name for path in tmp_path.iterdir()} == {
        part_file(ONE), faults_file(ONE), receipt_file(ONE),
    }  # fmt: skip
    assert held(tmp_path, part_file(ONE)) == [by_key(rows[0], rows[2])]
    assert held(tmp_path, faults_file(ONE)) == [by_key(rows[1], rows[3], rows[4])]
    receipt = module.read_receipt(tmp_path, ONE)
    assert (receipt.completions, list(receipt.faults.items())) == (2, [("empty", 1), ("x", 2)])
    assert (receipt.tokens_in, receipt.tokens_out, receipt.usd) == (35, 15, 7.0)
    assert receipt.replaces == [] and receipt.sha256.keys() == {part_file(ONE), faults_file(ONE)}


def test_of_nothing_no_part_is_made_and_the_journal_goes(tmp_path: Path) -> None:
    (tmp_path / journal_file(ONE)).touch()
    for _ in range(2):
        seal(tmp_path, ONE, [])
        assert list(tmp_path.iterdir()) == []


def test_faults_that_a_killed_attempt_left_are_not_taken_for_this_part(tmp_path: Path) -> None:
    (tmp_path / faults_file(ONE)).write_text("half")
    seal(tmp_path, ONE, [entry(1)])
    assert not (tmp_path / faults_file(ONE)).exists()


def test_a_part_of_faults_alone_holds_no_completion(tmp_path: Path) -> None:
    seal(tmp_path, ONE, [entry(1, fault="x")])
    assert held(tmp_path, part_file(ONE)) == []
    found = module.read_receipt(tmp_path, ONE)
    assert (found.completions, found.faults, found.tokens_in) == (0, {"x": 1}, 7)
    nothing = write_part(tmp_path, TWO, iter([ENTRY.empty_table()]), iter([ENTRY.empty_table()]))
    assert (nothing.rows, nothing.tokens_in, nothing.usd) == (0, 0, 0.0)
    assert not (tmp_path / faults_file(TWO)).exists()


def test_the_part_is_the_last_to_be_written_and_the_first_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    for name in ("commit", "commit_json"):
        real = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda path, *rest, real=real: (real(path, *rest), done.append(path.name))
        )
    monkeypatch.setattr(module, "_sync", lambda folder: done.append("flushed"))
    seal(tmp_path, ONE, [entry(1), entry(2, fault="x")])
    assert done == [faults_file(ONE), receipt_file(ONE), part_file(ONE), "flushed"]
    gone: list[str] = []
    real = Path.unlink
    monkeypatch.setattr(
        Path, "unlink", lambda path, **named: (gone.append(path.name), real(path, **named))
    )
    module.remove(tmp_path, ONE)
    assert gone == [part_file(ONE), faults_file(ONE), receipt_file(ONE)]
    module.remove(tmp_path, ONE)
    assert list(tmp_path.iterdir()) == []


def test_neighbours_become_one_part_in_their_order(tmp_path: Path) -> None:
    seal(tmp_path, ONE, [entry(1, "first"), entry(2, fault="x")])
    seal(tmp_path, TWO, [entry(1, "second"), entry(3), entry(2, fault="y")])
    seal(tmp_path, SIX, [entry(4)])
    receipt = replace(tmp_path, [ONE, TWO, SIX])
    name = f"{ONE}-000001"
    assert {path.name for path in tmp_path.iterdir()} == {
        part_file(name), faults_file(name), receipt_file(name),
    }  # fmt: skip
    (rows,) = held(tmp_path, part_file(name))
    assert [row.key for row in rows] == sorted(key(n) for n in (1, 1, 3, 4))
    assert [row.text for row in rows if row.key == key(1)] == ["first", "second"]
    assert [row.fault for row in held(tmp_path, faults_file(name))[0]] == ["x", "y"]
    assert (receipt.replaces, receipt.rows, receipt.tokens_in) == ([ONE, TWO, SIX], 6, 42)


def test_rows_of_dropped_keys_are_left_out(tmp_path: Path) -> None:
    seal(tmp_path, ONE, [entry(1), entry(2), entry(3, fault="x"), entry(4, fault="x")])
    receipt = replace(tmp_path, [ONE], frozenset([key(1), key(3), key(9)]))
    assert held(tmp_path, part_file(f"{ONE}-000001")) == [[entry(2)]]
    assert held(tmp_path, faults_file(f"{ONE}-000001")) == [[entry(4, fault="x")]]
    assert (receipt.completions, receipt.faults, receipt.tokens_in) == (1, {"x": 1}, 14)


def test_small_row_groups_are_joined_up_to_their_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GROUP_ROWS", 4)
    for number, count in enumerate((5, 2, 1, 1, 1, 5, 3)):
        name = f"{number:015d}-{'0' * 32}"
        seal(tmp_path, name, [entry(10 * number + n) for n in range(count)])
    names = [f"{number:015d}-{'0' * 32}" for number in range(7)]
    replace(tmp_path, names)
    groups = held(tmp_path, part_file(f"{names[0]}-000001"))
    assert list(map(len, groups)) == [5, 4, 1, 5, 3]
    assert all(rows == by_key(*rows) for rows in groups)


def test_keys_lie_bare_and_pages_carry_checksums(tmp_path: Path) -> None:
    seal(tmp_path, ONE, [entry(number) for number in range(50)])
    path = tmp_path / part_file(ONE)
    columns = pq.ParquetFile(path).metadata.row_group(0)
    packed = {columns.column(n).path_in_schema: columns.column(n).compression for n in range(11)}
    assert packed.pop("key") == "UNCOMPRESSED" and set(packed.values()) == {"ZSTD"}
    data = path.read_bytes()
    at = data.index(sorted(key(number) for number in range(50))[20])
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with open_part(path) as part, pytest.raises(DamagedError, match=r"is damaged .*repair=true"):
        module.read_group(part, path, 0)


def test_only_parts_of_a_log_are_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_part(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("no table")
    pq.write_table(pa.table({"key": [b"x"]}), tmp_path / "other.parquet")
    for name, said in (("text", "is damaged"), ("other", "other columns")):
        with pytest.raises(DamagedError, match=rf"{name}\.parquet.*{said}"):
            open_part(tmp_path / f"{name}.parquet")


def test_recent_row_groups_and_few_files_are_kept(tmp_path: Path) -> None:
    names = [f"{number:015d}-{'0' * 32}" for number in range(4)]
    for number, name in enumerate(names):
        seal(tmp_path, name, [entry(number)])
    files = [part_file(name) for name in names]
    groups = Groups(tmp_path, keep=2)
    for file in (files[0], files[1], files[0], files[1]):
        assert len(groups.read(file, 0)) == 1
    assert groups.read.cache_info().misses == 2, "as many as are kept are read once"
    assert next(entries_to_tables([entry(1)])).equals(groups.read(files[1], 0))
    for file in files:
        groups.read(file, 0)
    assert groups.read.cache_info().currsize == groups._opened.cache_info().currsize == 2
