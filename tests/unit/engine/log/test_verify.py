"""What the proof of a log finds: one damage each, by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from srrag.core.ids import file_sha256
from srrag.engine.log import verify as module
from srrag.engine.log.entry import Entry, entries_to_tables
from srrag.engine.log.listing import faults_file, journal_file, part_file, receipt_file
from srrag.engine.log.parts import _write, replace, seal
from srrag.engine.log.verify import damage, lost
from tests.unit.engine.logs import entry

NAMES = [f"{number:015d}-{'0' * 32}" for number in range(1, 9)]
ROWS = [entry(1, usd=1), entry(2, usd=2), entry(3, fault="x", usd=4), entry(4, fault="y")]


@pytest.fixture
def log(tmp_path: Path) -> Path:
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


def test_a_file_that_changed_or_is_gone_is_named_alone(log: Path) -> None:
    for of in (part_file, faults_file):
        path = log / of(NAMES[0])
        data = path.read_bytes()
        path.write_bytes(data[:-1])
        assert list(damage(log)) == [f"{path} is not what was sealed (sha256 differs)"]
        path.unlink()
        (line,) = damage(log)
        assert line.startswith(f"{path} is missing")
        path.write_bytes(data)
    assert list(damage(log)) == []


def test_a_receipt_that_names_other_files_is_named(log: Path) -> None:
    other = f"{log / part_file(NAMES[0])}: its receipt names other files"
    held = json.loads((log / receipt_file(NAMES[0])).read_bytes())["sha256"]
    for files in ({}, {part_file(NAMES[0])}, {faults_file(NAMES[0])}, {*held, "more"}):
        told(log, NAMES[0], sha256={file: held.get(file, "") for file in files})
        assert list(damage(log)) == [other]
    told(log, NAMES[0], sha256=held)
    single = json.loads((log / receipt_file(NAMES[1])).read_bytes())["sha256"]
    told(log, NAMES[1], sha256=single | {faults_file(NAMES[1]): ""})
    assert list(damage(log)) == [f"{log / part_file(NAMES[1])}: its receipt names other files"]


@pytest.mark.parametrize(
    "values",
    [
        {"completions": 3}, {"faults": {"x": 2}}, {"faults": {"x": 1, "z": 1}}, {"tokens_in": 27},
        {"tokens_out": 13}, {"usd": 7.1},
    ],
)  # fmt: skip
def test_a_receipt_that_counts_other_rows_is_named(log: Path, values: dict[str, Any]) -> None:
    told(log, NAMES[0], **values)
    assert list(damage(log)) == [f"{log / part_file(NAMES[0])}: its receipt counts other rows"]


def test_a_sum_of_money_may_be_a_rounding_away(log: Path) -> None:
    told(log, NAMES[0], usd=7 + 1e-12)
    assert list(damage(log)) == []
    told(log, NAMES[1], usd=1e-10)
    assert list(damage(log)) == []


def test_rows_in_another_order_or_of_another_kind_are_named(log: Path) -> None:
    path = log / part_file(NAMES[0])
    good = sorted(ROWS[:2], key=lambda each: each.key)
    rewritten(log, path.name, [good[::-1]])
    assert list(damage(log)) == [f"{path}: row group 0 is not sorted by key"]
    rewritten(log, path.name, [good[1:], good[:1]])
    assert list(damage(log)) == [], "row groups are sorted each"
    bad = sorted(ROWS[2:], key=lambda each: each.key)
    low, high = Entry(bytes(16), "a"), Entry(b"\xff" * 16, fault="x")
    rewritten(log, path.name, [good, [low, high]])
    lines = list(damage(log))
    assert lines[0] == f"{path}: row group 1 mixes completions and faults" and len(lines) == 2
    rewritten(log, path.name, [good])
    rewritten(log, faults_file(NAMES[0]), [bad, [low]])
    first, _ = damage(log)
    assert first == f"{log / faults_file(NAMES[0])}: row group 1 mixes completions and faults"


def test_journals_and_receipts_that_cannot_be_read_are_named_each(log: Path) -> None:
    (log / journal_file(NAMES[2])).write_bytes(b"\x00\n" + entry(6).line())
    (log / receipt_file(NAMES[0])).write_text("")
    one, two = damage(log)
    assert receipt_file(NAMES[0]) in one and journal_file(NAMES[2]) in two
    replace(log, [NAMES[1]])
    (log / receipt_file(f"{NAMES[1]}-000001")).write_text("")
    (line,) = damage(log)
    assert f"{NAMES[1]}-000001.json: not a receipt" in line


def test_a_part_is_lost_if_only_its_receipt_is_left_and_nothing_explains_that(log: Path) -> None:
    kept = {path.name: path.read_bytes() for path in log.iterdir()}
    replace(log, [NAMES[1]])
    joint = f"{NAMES[1]}-000001"
    (log / receipt_file(NAMES[1])).write_bytes(kept[receipt_file(NAMES[1])])
    assert list(lost(log)) == [], "its replacement stands"
    (log / receipt_file(NAMES[2])).write_bytes(kept[receipt_file(NAMES[1])])
    assert list(lost(log)) == [], "its journal stands"
    for name in (NAMES[4], NAMES[3]):
        (log / receipt_file(name)).write_bytes(kept[receipt_file(NAMES[1])])
    (log / receipt_file(NAMES[5])).write_text("no receipt")
    assert list(lost(log)) == [NAMES[3], NAMES[4], NAMES[5]]
    (log / part_file(joint)).unlink()
    (log / part_file(NAMES[1])).write_bytes(kept[part_file(NAMES[1])])
    for name in NAMES[3:6]:
        (log / receipt_file(name)).unlink()
    assert list(lost(log)) == [], "a replacement that was not finished"
    (log / part_file(NAMES[1])).unlink()
    (log / receipt_file(NAMES[1])).unlink()
    assert list(damage(log)) == [
        f"{log / part_file(joint)} is missing; what it held is asked for again"
    ]


def test_a_receipt_that_cannot_be_read_replaces_nothing(log: Path) -> None:
    assert module._replaced(log, "none") == [] == module._replaced(log, NAMES[0])
    replace(log, [NAMES[1]])
    assert module._replaced(log, f"{NAMES[1]}-000001") == [NAMES[1]]
