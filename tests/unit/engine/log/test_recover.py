"""What a run that takes a log over finds half done, seals, merges or takes out."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from srrag.engine.log import recover as module
from srrag.engine.log.journal import Journal
from srrag.engine.log.listing import faults_file, journal_file, part_file, receipt_file
from srrag.engine.log.parts import replace, seal
from srrag.engine.log.recover import compact, finish, forget, recover
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
    old = [aged(tmp_path / name, 6) for name in (".part-a.01", ".faults-a.01")]
    old += [aged(tmp_path / ".lock-a", 61), aged(tmp_path / ".index-a" / "heads.npy", 0)]
    aged(tmp_path / ".index-a", 3601)
    new = [aged(tmp_path / name, 3) for name in (".part-b.01", ".faults-b.01")]
    new += [aged(tmp_path / ".lock-b", 50), aged(tmp_path / ".index-b" / "heads.npy", 0)]
    aged(tmp_path / ".index-b", 3500)
    finish(tmp_path, settle_s=5)
    assert not any(path.exists() for path in old) and all(path.exists() for path in new)
    assert not (tmp_path / ".index-a").exists()


@pytest.mark.parametrize("missing", [".part-a.01", ".faults-a.01", ".lock-a"])
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
    aged(journal(tmp_path, NAMES[0], 1, 2), 10)
    aged(journal(tmp_path, NAMES[1], 3), 10)
    journal(tmp_path, NAMES[2], 4)
    living = Journal(tmp_path)
    living.append([entry(5)])
    (tmp_path / faults_file(NAMES[7])).touch()
    found = recover(tmp_path, settle_s=5)
    assert (found.sealed, found.left, found.merged) == (2, 2, 0)
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
    (tmp_path / "index-0" / "x").mkdir(parents=True)
    (tmp_path / faults_file(NAMES[7])).touch()
    gone = frozenset([key(1), key(3), key(5)])
    assert forget(tmp_path, gone, frozenset([*NAMES[:2], "none"])) == 7
    assert parts(tmp_path) == [f"{NAMES[0]}-000001", f"{NAMES[1]}-000001", NAMES[2], NAMES[3]]
    rows = [module.read_receipt(tmp_path, name).rows for name in parts(tmp_path)]
    assert rows == [1, 1, 3, 1]
    assert not list(tmp_path.glob("journal-*")) and not list(tmp_path.glob("index-*"))
    assert not (tmp_path / faults_file(NAMES[7])).exists(), "what was half done is done first"


def test_nothing_is_taken_from_under_a_writer(tmp_path: Path) -> None:
    living = Journal(tmp_path)
    living.append([entry(1)])
    before = names(tmp_path)
    with pytest.raises(ValueError, match=r"journal-.* is being written; stop the run"):
        forget(tmp_path, frozenset([key(1)]), frozenset())
    assert names(tmp_path) == before
