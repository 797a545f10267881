"""Where the rows of a log are: in its index, in newer files, in journals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from srrag.engine.log import reader as module
from srrag.engine.log.listing import journal_file, part_file
from srrag.engine.log.parts import replace, seal
from srrag.engine.log.reader import KeyIndex, LogReader, RowPosition, head_of, index_file, join
from tests.unit.engine.logs import entry, key

NAMES = [f"{number:015d}-{'0' * 32}" for number in range(1, 9)]


def places(reader: LogReader, *numbers: int) -> dict[int, list[RowPosition]]:
    heads = head_of([key(number) for number in numbers])
    found = reader.places(np.unique(heads))
    return {n: found[int(h)] for n, h in zip(numbers, heads, strict=True) if int(h) in found}


def opened(folder: Path) -> LogReader:
    reader = LogReader(folder)
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
    told = reader.rows(["key", "fault", "text"])
    assert told["fault"].to_pylist() == [""] * 6 + ["x", "y"]
    texts = dict(zip(told["key"].to_pylist(), told["text"].to_pylist(), strict=True))
    assert texts.keys() == {key(number) for number in (1, 2, 3, 5)}
    few = head_of([key(5)])
    assert reader.places(few).keys() == set(few.tolist()), "only what was asked for"


def test_without_files_nothing_is_found(tmp_path: Path) -> None:
    reader = LogReader(tmp_path / "none")
    assert places(reader, 1) == {} and len(reader.rows(["key"])) == 0
    reader.refresh()
    assert places(reader, 1) == {} and len(reader.rows(["key"])) == 0


def test_a_head_is_the_first_half_of_a_key_and_sorts_like_it() -> None:
    keys = sorted(key(number) for number in range(50))
    heads = head_of(keys)
    assert heads.tolist() == [int.from_bytes(each[:8], "big") for each in keys]
    assert heads.tolist() == sorted(heads.tolist())
    with pytest.raises(ValueError, match="has 16 bytes"):
        head_of([keys[0], b"short"])
    assert head_of([]).shape == (0,)


def test_a_joint_index_knows_where_each_key_stands(tmp_path: Path) -> None:
    numbers = (range(4), range(4, 9), range(9, 10))
    for name, each in zip(NAMES, numbers, strict=False):
        seal(tmp_path, name, [entry(number) for number in each])
    index = join([index_file(tmp_path, part_file(name)) for name in NAMES[:3]])
    assert index.files == tuple(map(part_file, NAMES[:3])) and len(index) == 10
    assert (np.diff(index.heads.astype(object)) > 0).all()
    for name, each in zip(NAMES, numbers, strict=False):
        held = sorted(key(number) for number in each)
        found = [place for _, place in index.rows_of(head_of(held))]
        assert found == [RowPosition(False, name, 0, row) for row in range(len(held))]
    assert len(KeyIndex()) == 0 and not list(KeyIndex().rows_of(head_of([key(1)])))


def test_newer_files_are_indexed_beside_the_others_until_they_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TAIL_ROWS", 5)
    reader = LogReader(tmp_path)
    told = []
    sizes = (5, 2, 1, 40, 6, 1)
    for number, (name, size) in enumerate(zip(NAMES, sizes, strict=False)):
        seal(tmp_path, name, [entry(100 * number + each) for each in range(size)])
        reader.refresh()
        told.append((len(reader.kept), len(reader.tail)))
        assert len(places(reader, *(100 * each for each in range(number + 1)))) == number + 1
    assert told == [(0, 5), (7, 0), (7, 1), (48, 0), (48, 6), (55, 0)]


def test_a_merged_log_is_indexed_anew(tmp_path: Path) -> None:
    for number, name in enumerate(NAMES[:3]):
        seal(tmp_path, name, [entry(number), entry(number + 10)])
    reader = opened(tmp_path)
    replace(tmp_path, NAMES[:2])
    reader.refresh()
    assert len(reader.kept) + len(reader.tail) == 6
    assert all(len(each) == 1 for each in places(reader, 0, 1, 2, 10, 11, 12).values())
    assert len(places(reader, 0, 1, 2, 10, 11, 12)) == 6


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
    reader = LogReader(tmp_path)
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
        LogReader(tmp_path).refresh()
