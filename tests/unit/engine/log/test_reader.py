"""Where the rows of a log are: in its index, in newer files, in journals."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from srrag.engine.log import reader as module
from srrag.engine.log.entry import Entry
from srrag.engine.log.index import head_of
from srrag.engine.log.journal import Journal
from srrag.engine.log.listing import journal_file, part_file
from srrag.engine.log.parts import replace, seal
from srrag.engine.log.reader import LogReader, RowPosition
from tests.unit.engine.logs import entry, key

NAMES = [f"{number:015d}-{'0' * 32}" for number in range(1, 9)]


def places(reader: LogReader, *numbers: int) -> dict[int, list[RowPosition]]:
    heads = head_of([key(number) for number in numbers])
    found = reader.places(np.unique(heads))
    return {n: found[int(h)] for n, h in zip(numbers, heads, strict=True) if int(h) in found}


def opened(folder: Path, keep_rows: int = 100) -> LogReader:
    reader = LogReader(folder, keep_rows)
    reader.refresh()
    return reader


def test_every_row_has_its_place_completions_first(tmp_path: Path) -> None:
    seal(tmp_path, NAMES[0], [entry(1), entry(2, fault="x"), entry(3)])
    seal(tmp_path, NAMES[1], [entry(2), entry(1)])
    (tmp_path / journal_file(NAMES[2])).write_bytes(
        entry(5).line() + entry(1).line() + entry(2, fault="y").line()
    )
    reader = opened(tmp_path)
    found = places(reader, 1, 2, 3, 4, 5)
    assert [(p.is_fault, p.name, p.group) for p in found[1]] == [
        (False, NAMES[0], 0), (False, NAMES[1], 0), (False, NAMES[2], -1),
    ]  # fmt: skip
    assert [(p.is_fault, p.name) for p in found[2]] == [
        (False, NAMES[1]), (True, NAMES[0]), (True, NAMES[2]),
    ]  # fmt: skip
    assert found.keys() == {1, 2, 3, 5} and len(found[3]) == len(found[5]) == 1
    for number, several in found.items():
        for place in several:
            (read,) = reader.entries(*place[:3], [place.row])
            assert read.key == key(number) and bool(read.fault) == place.is_fault
            assert reader.paid(*place[:3], [place.row]) == [(key(number), 7, 3)]
    assert reader.repeated().tolist() == sorted(head_of([key(1), key(2)]).tolist())
    few = head_of([key(5)])
    assert reader.places(few).keys() == set(few.tolist()), "only what was asked for"


def test_without_files_nothing_is_found(tmp_path: Path) -> None:
    reader = LogReader(tmp_path / "none", 5)
    assert places(reader, 1) == {} and reader.repeated().tolist() == []
    reader.refresh()
    assert places(reader, 1) == {} and reader.repeated().tolist() == []
    assert reader.kept is not None and not reader.kept.files


def test_the_index_is_saved_above_its_rows_and_newer_files_are_indexed_beside(
    tmp_path: Path,
) -> None:
    seal(tmp_path, NAMES[0], [entry(number) for number in range(5)])
    reader = opened(tmp_path, keep_rows=5)
    assert reader.kept is not None and len(reader.kept) == 0 and len(reader.tail) == 5
    assert not list(tmp_path.glob("index-*"))
    seal(tmp_path, NAMES[1], [entry(5), entry(3)])
    reader.refresh()
    assert (len(reader.kept), len(reader.tail)) == (7, 0) and list(tmp_path.glob("index-*"))
    assert len(places(reader, 5, 3)[3]) == 2
    seal(tmp_path, NAMES[2], [entry(6), entry(4)])
    reader.refresh()
    assert (len(reader.kept), len(reader.tail)) == (7, 2)
    assert reader.tail.files == (part_file(NAMES[2]),)
    found = places(reader, 3, 4, 6)
    assert [len(found[number]) for number in (3, 4, 6)] == [2, 2, 1]
    heads = head_of([key(3), key(4)])
    assert reader.repeated().tolist() == sorted(heads.tolist())
    other = opened(tmp_path, keep_rows=5)
    assert other.kept is not None and (len(other.kept), len(other.tail)) == (7, 2)


def test_of_a_large_index_an_eighth_may_lie_beside_it(tmp_path: Path) -> None:
    seal(tmp_path, NAMES[0], [entry(number) for number in range(72)])
    reader = opened(tmp_path, keep_rows=1)
    assert reader.kept is not None and len(reader.kept) == 72
    seal(tmp_path, NAMES[1], [entry(number) for number in range(72, 81)])
    reader.refresh()
    assert (len(reader.kept), len(reader.tail)) == (72, 9)
    seal(tmp_path, NAMES[2], [entry(81)])
    reader.refresh()
    assert (len(reader.kept), len(reader.tail)) == (82, 0)


def test_a_repeated_key_in_the_saved_index_counts_wherever_its_rows_are(tmp_path: Path) -> None:
    seal(tmp_path, NAMES[0], [entry(1), entry(1), entry(2), entry(3)])
    reader = opened(tmp_path, keep_rows=1)
    assert reader.kept is not None and len(reader.kept) == 4
    assert reader.repeated().tolist() == head_of([key(1)]).tolist()
    journal = Journal(tmp_path)
    every = [Entry(bytes(16)), Entry(b"\xff" * 16), entry(3), entry(9), entry(9)]
    journal.append(every)
    reader.refresh()
    assert reader.repeated().tolist() == sorted(head_of([key(1), key(3), key(9)]).tolist())


def test_a_merged_log_is_indexed_anew(tmp_path: Path) -> None:
    for number, name in enumerate(NAMES[:3]):
        seal(tmp_path, name, [entry(number), entry(number + 10)])
    reader = opened(tmp_path, keep_rows=3)
    assert reader.kept is not None and len(reader.kept) == 6
    replace(tmp_path, NAMES[:2])
    reader.refresh()
    assert len(reader.kept) + len(reader.tail) == 6
    assert all(len(each) == 1 for each in places(reader, 0, 1, 2, 10, 11, 12).values())
    assert len(places(reader, 0, 1, 2, 10, 11, 12)) == 6


def test_a_log_that_may_not_be_written_is_indexed_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal(tmp_path, NAMES[0], [entry(1), entry(2)])
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    reader = opened(tmp_path, keep_rows=1)
    assert reader.kept is not None and len(reader.kept) == 2
    assert not list(tmp_path.glob("index-*"))


def test_a_journal_is_read_on_from_where_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / journal_file(NAMES[0])
    path.write_bytes(entry(1).line() + entry(2).line()[:9])
    reader = opened(tmp_path)
    path.write_bytes(entry(1).line() + entry(2).line() + entry(3).line())
    reader.refresh()
    reader.refresh()
    (journal,) = reader.journals.values()
    assert [each.key for each in journal.entries] == [key(1), key(2), key(3)]
    assert [places(reader, n)[n][0].row for n in (1, 2, 3)] == [0, 1, 2]


def test_a_file_that_goes_while_it_is_read_is_looked_for_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(NAMES[:2]):
        seal(tmp_path, name, [entry(number)])
    reader = LogReader(tmp_path, 100)
    real = module.index_file

    def late(folder: Path, file: str) -> object:
        if (tmp_path / part_file(NAMES[0])).exists():
            replace(tmp_path, NAMES[:2])
        return real(folder, file)

    monkeypatch.setattr(module, "index_file", late)
    reader.refresh()
    assert reader.listing.parts == (f"{NAMES[0]}-000001",) and len(places(reader, 0, 1)) == 2


def test_a_file_that_is_lost_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal(tmp_path, NAMES[0], [entry(1)])

    def lost(folder: Path, file: str) -> object:
        raise FileNotFoundError(file)

    monkeypatch.setattr(module, "index_file", lost)
    with pytest.raises(FileNotFoundError):
        LogReader(tmp_path, 100).refresh()
