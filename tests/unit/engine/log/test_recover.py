"""What a run that takes a log over finds half done, seals, merges or takes out."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.core.spec import file_sha256
from srrag.engine.log import recover as module
from srrag.engine.log.completion_log import CompletionLog
from srrag.engine.log.entry import (
    Entry,
    entries_to_tables,
    faults_file,
    journal_file,
    part_file,
    read_receipt,
    receipt_file,
)
from srrag.engine.log.journal import Journal, _write, replace, seal
from srrag.engine.log.recover import compact, damage, finish, forget, lost, mend, recover
from tests.unit.engine.logs import entry, key

NAMES = [f"{number:015d}-{'0' * 32}" for number in range(1, 9)]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def journal(folder: Path, name: str, *numbers: int) -> Path:
    path = folder / journal_file(name)
    path.write_bytes(b"".join(entry(number).line() for number in numbers))
    return path


def aged(path: Path, age_s: float) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.touch()
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


def parts(folder: Path) -> list[str]:
    return sorted(path.stem.removeprefix("part-") for path in folder.glob("part-*.parquet"))


def test_what_a_kill_left_is_finished(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    seal(tmp_path, NAMES[0], [entry(1), entry(2, fault="x")])
    journal(tmp_path, NAMES[0], 1)
    seal(tmp_path, NAMES[1], [entry(3)])
    seal(tmp_path, NAMES[2], [entry(4), entry(5, fault="x")])
    stale = {path.name: path.read_bytes() for path in tmp_path.glob(f"*{NAMES[1]}*")}
    stale |= {path.name: path.read_bytes() for path in tmp_path.glob(f"*{NAMES[2]}*")}
    replace(tmp_path, NAMES[1:3])
    for name, data in stale.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / faults_file(NAMES[3])).touch()
    (tmp_path / receipt_file(NAMES[4])).write_text("{}")
    journal(tmp_path, NAMES[5], 6)
    for file in (faults_file(NAMES[5]), receipt_file(NAMES[5])):
        (tmp_path / file).touch()
    finish(tmp_path, settle_s=0)
    joint = f"{NAMES[1]}-000001"
    whole = [part_file, faults_file, receipt_file]
    assert names(tmp_path) == {
        "kept", *(of(NAMES[0]) for of in whole), *(of(joint) for of in whole),
        journal_file(NAMES[5]), faults_file(NAMES[5]), receipt_file(NAMES[5]),
    }  # fmt: skip
    finish(tmp_path, settle_s=0)
    finish(tmp_path / "none", settle_s=0)


def test_unfinished_files_go_once_nobody_can_be_writing_them(tmp_path: Path) -> None:
    old = [aged(tmp_path / name, 6000) for name in (".part-a.01", ".faults-a.01")]
    new = [aged(tmp_path / name, 3) for name in (".part-b.01", ".faults-b.01")]
    finish(tmp_path, settle_s=5000)
    assert not any(path.exists() for path in old) and all(path.exists() for path in new)


@pytest.mark.parametrize("missing", [".part-a.01", ".faults-a.01"])
def test_who_finishes_at_the_same_time_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    path = aged(tmp_path / missing, 100)
    real = time.time

    def late() -> float:
        return real()

    monkeypatch.setattr(module.time, "time", late)
    stat = Path.stat

    def gone(self: Path, **named: bool) -> os.stat_result:
        found = stat(self, **named)
        if self == path:
            os.remove(path)  # noqa: PTH107 (the other run's)
        return found

    monkeypatch.setattr(Path, "stat", gone)
    finish(tmp_path, settle_s=5)


def test_journals_are_sealed_unless_they_are_being_written(tmp_path: Path) -> None:
    aged(journal(tmp_path, NAMES[0], 1, 2), 10_000)
    aged(journal(tmp_path, NAMES[1], 3), 10_000)
    journal(tmp_path, NAMES[2], 4)
    living = Journal(tmp_path)
    living.append([entry(5)])
    (tmp_path / faults_file(NAMES[7])).touch()
    recover(tmp_path, settle_s=5000)
    assert len(list(tmp_path.glob("journal-*"))) == 2
    assert parts(tmp_path) == NAMES[:2]
    assert not (tmp_path / faults_file(NAMES[7])).exists(), "what was half done is done first"
    assert module.read_receipt(tmp_path, NAMES[0]).rows == 2


def test_many_small_neighbours_are_merged_and_full_ones_left(tmp_path: Path) -> None:
    for name, rows in zip(NAMES, (1, 1, 4, 1, 2, 1, 1), strict=False):
        seal(tmp_path, name, [entry(number) for number in range(rows)])
    assert compact(tmp_path, max_parts=7, whole_rows=3) == 0 and parts(tmp_path) == NAMES[:7]
    assert compact(tmp_path, max_parts=6, whole_rows=3) == 6
    assert parts(tmp_path) == [
        f"{NAMES[0]}-000001", NAMES[2], f"{NAMES[3]}-000001", f"{NAMES[5]}-000001",
    ]  # fmt: skip
    rows = [module.read_receipt(tmp_path, name).rows for name in parts(tmp_path)]
    assert rows == [2, 4, 3, 2]


def test_one_row_more_than_whole_is_whole_and_a_lone_part_is_left(tmp_path: Path) -> None:
    for name, rows in zip(NAMES, (3, 1, 4, 2, 2), strict=False):
        seal(tmp_path, name, [entry(number) for number in range(rows)])
    assert compact(tmp_path, max_parts=1, whole_rows=3) == 2
    assert parts(tmp_path) == [*NAMES[:3], f"{NAMES[3]}-000001"]
    few = tmp_path / "few"
    few.mkdir()
    for name in NAMES[:4]:
        seal(few, name, [entry(1)])
    assert compact(few, max_parts=1, whole_rows=2) == 4
    assert parts(few) == [f"{NAMES[0]}-000001", f"{NAMES[2]}-000001"]


def test_merging_stops_at_the_first_journal(tmp_path: Path) -> None:
    for name in (*NAMES[:2], *NAMES[3:5]):
        seal(tmp_path, name, [entry(1)])
    journal(tmp_path, NAMES[2], 1)
    journal(tmp_path, NAMES[7], 1)
    assert compact(tmp_path, max_parts=1) == 2
    assert parts(tmp_path) == [f"{NAMES[0]}-000001", *NAMES[3:5]]


def test_rows_of_keys_are_taken_out_of_the_named_parts_and_all_journals(tmp_path: Path) -> None:
    for name in NAMES[:3]:
        seal(tmp_path, name, [entry(1), entry(2), entry(3, fault="x")])
    journal(tmp_path, NAMES[3], 1, 4, 5)
    journal(tmp_path, NAMES[4], 1)
    (tmp_path / faults_file(NAMES[7])).touch()
    gone = frozenset([key(1), key(3), key(5)])
    assert forget(tmp_path, gone, frozenset([*NAMES[:2], "none"])) == 7
    assert parts(tmp_path) == [f"{NAMES[0]}-000001", f"{NAMES[1]}-000001", NAMES[2], NAMES[3]]
    rows = [module.read_receipt(tmp_path, name).rows for name in parts(tmp_path)]
    assert rows == [1, 1, 3, 1]
    assert not list(tmp_path.glob("journal-*"))
    assert not (tmp_path / faults_file(NAMES[7])).exists(), "what was half done is done first"


def test_nothing_is_taken_from_under_a_writer(tmp_path: Path) -> None:
    living = Journal(tmp_path)
    living.append([entry(1)])
    before = names(tmp_path)
    with pytest.raises(ValueError, match=r"journal-.* is being written; stop the run"):
        forget(tmp_path, frozenset([key(1)]), frozenset())
    assert names(tmp_path) == before


def sealed(folder: Path, *numbers: int) -> str:
    """Seal a part of answers and one fault; its name."""
    before = set(folder.glob("part-*.parquet"))
    with closing(Journal(folder)) as journal:
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
    folder, _, _ = log
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
    with closing(Journal(tmp_path)) as journal:
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
    for each in ("entry", "journal"):
        monkeypatch.setattr(f"srrag.engine.log.{each}.GROUP_ROWS", 2)
    with closing(Journal(tmp_path)) as journal:
        journal.append([entry(number) for number in range(6)])
    (path,) = tmp_path.glob("part-*.parquet")
    data = bytearray(path.read_bytes())
    data[40] ^= 0xFF
    path.write_bytes(bytes(data))
    (said,) = mend(tmp_path)
    assert "written again with 4 answers, 2 answers lost" in said
    assert len(held(tmp_path)) == 4


ROWS = [entry(1, usd=1), entry(2, usd=2), entry(3, fault="x", usd=4), entry(4, fault="y")]


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    seal(tmp_path, NAMES[0], ROWS)
    seal(tmp_path, NAMES[1], [entry(5)])
    (tmp_path / journal_file(NAMES[2])).write_bytes(entry(6).line())
    assert list(damage(tmp_path)) == []
    return tmp_path


def told(folder: Path, name: str, **values: Any) -> None:
    path = folder / receipt_file(name)
    path.write_text(json.dumps(json.loads(path.read_bytes()) | values))


def rewritten(folder: Path, file: str, groups: Sequence[Sequence[Entry]]) -> None:
    """Another content under a receipt that has its hash."""
    name = file.partition("-")[2].removesuffix(".parquet")
    tables = [[next(entries_to_tables([row])) for row in rows] for rows in groups]  # unsorted
    _write(folder / file, [pa.concat_tables(each).combine_chunks() for each in tables])
    sha256 = json.loads((folder / receipt_file(name)).read_bytes())["sha256"]
    told(folder, name, sha256=sha256 | {file: file_sha256(folder / file)})


def test_a_file_that_changed_or_is_gone_is_named_alone(whole: Path) -> None:
    for of in (part_file, faults_file):
        path = whole / of(NAMES[0])
        data = path.read_bytes()
        path.write_bytes(data[:-1])
        assert list(damage(whole)) == [f"{path} is not what was sealed (sha256 differs)"]
        path.unlink()
        (line,) = damage(whole)
        assert line.startswith(f"{path} is missing")
        path.write_bytes(data)
    assert list(damage(whole)) == []


def test_a_receipt_that_names_other_files_is_named(whole: Path) -> None:
    other = f"{whole / part_file(NAMES[0])}: its receipt names other files"
    held = json.loads((whole / receipt_file(NAMES[0])).read_bytes())["sha256"]
    for files in ({}, {part_file(NAMES[0])}, {faults_file(NAMES[0])}, {*held, "more"}):
        told(whole, NAMES[0], sha256={file: held.get(file, "") for file in files})
        assert list(damage(whole)) == [other]
    told(whole, NAMES[0], sha256=held)
    single = json.loads((whole / receipt_file(NAMES[1])).read_bytes())["sha256"]
    told(whole, NAMES[1], sha256=single | {faults_file(NAMES[1]): ""})
    assert list(damage(whole)) == [f"{whole / part_file(NAMES[1])}: its receipt names other files"]


@pytest.mark.parametrize(
    "values",
    [
        {"completions": 3}, {"faults": {"x": 2}}, {"faults": {"x": 1, "z": 1}}, {"tokens_in": 27},
        {"tokens_out": 13}, {"usd": 7.1},
    ],
)  # fmt: skip
def test_a_receipt_that_counts_other_rows_is_named(whole: Path, values: dict[str, Any]) -> None:
    told(whole, NAMES[0], **values)
    assert list(damage(whole)) == [f"{whole / part_file(NAMES[0])}: its receipt counts other rows"]


def test_a_sum_of_money_may_be_a_rounding_away(whole: Path) -> None:
    told(whole, NAMES[0], usd=7 + 1e-12)
    assert list(damage(whole)) == []
    told(whole, NAMES[1], usd=1e-10)
    assert list(damage(whole)) == []


def test_rows_in_another_order_or_of_another_kind_are_named(whole: Path) -> None:
    path = whole / part_file(NAMES[0])
    good = sorted(ROWS[:2], key=lambda each: each.key)
    rewritten(whole, path.name, [good[::-1]])
    assert list(damage(whole)) == [f"{path}: row group 0 is not sorted by key"]
    rewritten(whole, path.name, [good[1:], good[:1]])
    assert list(damage(whole)) == [], "row groups are sorted each"
    bad = sorted(ROWS[2:], key=lambda each: each.key)
    low, high = Entry(bytes(16), "a"), Entry(b"\xff" * 16, fault="x")
    rewritten(whole, path.name, [good, [low, high]])
    lines = list(damage(whole))
    assert lines[0] == f"{path}: row group 1 mixes completions and faults" and len(lines) == 2
    rewritten(whole, path.name, [good])
    rewritten(whole, faults_file(NAMES[0]), [bad, [low]])
    first, _ = damage(whole)
    assert first == f"{whole / faults_file(NAMES[0])}: row group 1 mixes completions and faults"


def test_journals_and_receipts_that_cannot_be_read_are_named_each(whole: Path) -> None:
    (whole / journal_file(NAMES[2])).write_bytes(b"\x00\n" + entry(6).line())
    (whole / receipt_file(NAMES[0])).write_text("")
    one, two = damage(whole)
    assert receipt_file(NAMES[0]) in one and journal_file(NAMES[2]) in two
    replace(whole, [NAMES[1]])
    (whole / receipt_file(f"{NAMES[1]}-000001")).write_text("")
    (line,) = damage(whole)
    assert f"{NAMES[1]}-000001.json: not a receipt" in line


def test_a_part_is_lost_if_only_its_receipt_is_left_and_nothing_explains_that(whole: Path) -> None:
    kept = {path.name: path.read_bytes() for path in whole.iterdir()}
    replace(whole, [NAMES[1]])
    joint = f"{NAMES[1]}-000001"
    (whole / receipt_file(NAMES[1])).write_bytes(kept[receipt_file(NAMES[1])])
    assert list(lost(whole)) == [], "its replacement stands"
    (whole / receipt_file(NAMES[2])).write_bytes(kept[receipt_file(NAMES[1])])
    assert list(lost(whole)) == [], "its journal stands"
    for name in (NAMES[4], NAMES[3]):
        (whole / receipt_file(name)).write_bytes(kept[receipt_file(NAMES[1])])
    (whole / receipt_file(NAMES[5])).write_text("no receipt")
    assert list(lost(whole)) == [NAMES[3], NAMES[4], NAMES[5]]
    (whole / part_file(joint)).unlink()
    (whole / part_file(NAMES[1])).write_bytes(kept[part_file(NAMES[1])])
    for name in NAMES[3:6]:
        (whole / receipt_file(name)).unlink()
    assert list(lost(whole)) == [], "a replacement that was not finished"
    (whole / part_file(NAMES[1])).unlink()
    (whole / receipt_file(NAMES[1])).unlink()
    assert list(damage(whole)) == [
        f"{whole / part_file(joint)} is missing; what it held is asked for again"
    ]


def test_a_receipt_that_cannot_be_read_replaces_nothing(whole: Path) -> None:
    assert module._replaced(whole, "none") == [] == module._replaced(whole, NAMES[0])
    replace(whole, [NAMES[1]])
    assert module._replaced(whole, f"{NAMES[1]}-000001") == [NAMES[1]]
