"""What can be read stays, the rest is asked again, and what was whole is left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jobs.verify
from srrag.engine.log.completion_log import CompletionLog
from srrag.engine.log.entry import ENTRY, Entry
from srrag.engine.log.index import index_file, save
from srrag.engine.log.journal import Journal
from srrag.engine.log.listing import faults_file, part_file, read_receipt
from srrag.engine.log.parts import write_part
from srrag.engine.log.recover import mend
from tests.unit.engine.logs import entry, key


def sealed(folder: Path, *numbers: int) -> str:
    """Seal a part of answers and one fault; its name."""
    before = set(folder.glob("part-*.parquet"))
    with Journal(folder) as journal:
        journal.append([entry(number) for number in numbers])
        journal.append([entry(numbers[0] + 100, fault="empty")])
    (path,) = set(folder.glob("part-*.parquet")) - before
    return path.stem.removeprefix("part-")


def held(folder: Path) -> set[int]:
    log = CompletionLog(folder, settle_s=0)
    return {number for number in range(200) if key(number) in log.lookup([key(number)])}


def state(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def log(tmp_path: Path) -> tuple[Path, str, str]:
    return tmp_path, sealed(tmp_path, 1, 2), sealed(tmp_path, 3, 4)


def test_a_whole_log_is_left_as_it_is(log: tuple[Path, str, str]) -> None:
    folder, one, _ = log
    save(folder, index_file(folder, part_file(one)))
    journal = Journal(folder)
    journal.append([entry(9)])
    journal._leave()
    before = state(folder)
    assert list(mend(folder)) == [] and state(folder) == before


@pytest.mark.parametrize("damage", ["", "cut"])
def test_of_a_part_that_cannot_be_read_the_faults_stay(
    log: tuple[Path, str, str], damage: str
) -> None:
    folder, one, _ = log
    path = folder / part_file(one)
    path.write_bytes(path.read_bytes()[:-40] if damage else b"")
    (said,) = mend(folder)
    assert said.startswith(str(path)) and "written again with 1 answers, 2 answers lost" in said
    assert held(folder) == {101, 3, 4, 103}
    assert CompletionLog(folder).verify().problems == [] and list(mend(folder)) == []


def test_a_part_of_which_nothing_can_be_read_goes(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append([entry(1)])
    (path,) = tmp_path.glob("part-*.parquet")
    path.write_bytes(b"")
    (said,) = mend(tmp_path)
    assert "written again with 0 answers, 1 answers lost" in said
    assert list(tmp_path.iterdir()) == [] == list(mend(tmp_path))


@pytest.mark.parametrize("text", [None, "", "[]"])
def test_a_receipt_is_counted_again(log: tuple[Path, str, str], text: str | None) -> None:
    folder, _, two = log
    before = read_receipt(folder, two)
    path = folder / f"part-{two}.json"
    path.unlink() if text is None else path.write_text(text)
    (said,) = mend(folder)
    assert said.startswith(str(path))
    assert "written again with 3 answers, how many were lost is not known" in said
    after = read_receipt(folder, two)
    assert (after.rows, after.faults, after.replaces) == (before.rows, before.faults, [])
    assert held(folder) == {1, 2, 101, 3, 4, 103}


def test_a_part_that_is_gone_is_said_and_forgotten(log: tuple[Path, str, str]) -> None:
    folder, one, _ = log
    (folder / part_file(one)).unlink()
    (said,) = mend(folder)
    assert said == f"{folder / part_file(one)} is missing: what it held is asked for again"
    assert held(folder) == {3, 4, 103} and not list(folder.glob(f"*{one}*"))


def test_readable_lines_of_a_journal_stay(tmp_path: Path) -> None:
    path = tmp_path / f"journal-{1:015d}-{'0' * 32}.jsonl"
    lines = entry(1).line(), b"\x00\x00\n", entry(2).line(), entry(3).line()[:-9]
    path.write_bytes(b"".join(lines))
    (said,) = mend(tmp_path)
    assert said == f"{path}: 1 damaged lines taken out, 2 answers kept"
    assert held(tmp_path) == {1, 2} and not path.exists()


@pytest.mark.parametrize("array", ["heads", "rows"])
def test_an_index_that_leads_astray_is_removed(log: tuple[Path, str, str], array: str) -> None:
    import numpy as np

    folder, one, _ = log
    save(folder, index_file(folder, part_file(one)))
    (place,) = folder.glob("index-*")
    values = np.load(place / f"{array}.npy")
    values[0] += 1
    np.save(place / f"{array}.npy", values)
    (said,) = mend(folder)
    assert "its index did not fit the parts" in said and not list(folder.glob("index-*"))


def test_an_index_of_parts_that_are_gone_is_removed(log: tuple[Path, str, str]) -> None:
    folder, one, _ = log
    save(folder, index_file(folder, part_file(one)))
    (place,) = folder.glob("index-*")
    (place / "files.json").write_text(json.dumps(["part-none.parquet"]))
    (said,) = mend(folder)
    assert "did not fit" in said and not place.exists()


def test_journals_are_mended_from_the_oldest_on(tmp_path: Path) -> None:
    for number in range(8, 0, -1):
        path = tmp_path / f"journal-{number:015d}-{'0' * 32}.jsonl"
        path.write_bytes(b"\x00\x00\n" + entry(number).line())
    said = list(mend(tmp_path))
    assert said == sorted(said) and len(said) == 8
    assert held(tmp_path) == set(range(1, 9))


def test_a_damaged_row_group_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("entry", "parts"):
        monkeypatch.setattr(f"srrag.engine.log.{module}.GROUP_ROWS", 2)
    with Journal(tmp_path) as journal:
        journal.append([entry(number) for number in range(6)])
    (path,) = tmp_path.glob("part-*.parquet")
    data = bytearray(path.read_bytes())
    data[40] ^= 0xFF
    path.write_bytes(bytes(data))
    (said,) = mend(tmp_path)
    assert "written again with 4 answers, 2 answers lost" in said
    assert len(held(tmp_path)) == 4


def test_counts_below_zero_give_no_credit_and_are_mended(tmp_path: Path) -> None:
    name = sealed(tmp_path, 1, 2)
    column = ENTRY.get_field_index("tokens_in")
    files = []
    for file in (part_file, faults_file):
        table = pq.read_table(tmp_path / file(name))
        below = pa.array([-(10**6)] * len(table), pa.int64())
        files.append(table.set_column(column, ENTRY.field(column), below))
    write_part(tmp_path, name, iter(files[:1]), iter(files[1:]))
    assert CompletionLog(tmp_path).totals().tokens_in == -3 * 10**6
    assert CompletionLog(tmp_path).lookup([key(1)])[key(1)].tokens_in == 0
    said = [each.partition(": ")[2] for each in CompletionLog(tmp_path).verify().problems]
    assert sorted(said) == [f"{n} answers count fewer than 0 tokens" for n in (1, 2)]
    result = jobs.verify._proof(tmp_path)
    assert result.problems == [] and result.totals is not None
    assert (result.totals.tokens_in, result.totals.tokens_out, result.totals.usd) == (0, 9, 0.0)
    assert held(tmp_path) == {1, 2, 101}


def test_a_count_below_zero_in_a_journal_becomes_an_estimate() -> None:
    line = Entry(key(1), "twelve bytes", tokens_out=5).line().replace(b":5,", b":-5,")
    assert Entry.of_line(line).tokens_out == 3
