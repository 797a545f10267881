from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from srrag.engine.log.index import empty_index, head_of, index_file, join, load, save
from srrag.engine.log.journal import Journal
from tests.unit.engine.logs import entry, key


def parts(folder: Path, *groups: range) -> list[str]:
    """A log of one part for each range of numbers; the files."""
    for numbers in groups:
        with Journal(folder) as journal:
            journal.append([entry(number) for number in numbers])
    return sorted(path.name for path in folder.glob("part-*.parquet"))


def test_a_head_is_the_first_half_of_a_key_and_sorts_like_it() -> None:
    keys = sorted(key(number) for number in range(50))
    heads = head_of(keys)
    assert heads.tolist() == [int.from_bytes(each[:8], "big") for each in keys]
    assert heads.tolist() == sorted(heads.tolist())
    with pytest.raises(ValueError, match="has 16 bytes"):
        head_of([keys[0], b"short"])
    assert head_of([]).shape == (0,)


def test_a_joint_index_knows_where_each_key_stands(tmp_path: Path) -> None:
    files = parts(tmp_path, range(4), range(4, 9), range(9, 10))
    index = join([index_file(tmp_path, file) for file in files])
    assert index.files == tuple(files) and len(index) == 10
    assert (np.diff(index.heads.astype(object)) > 0).all()
    groups = [sorted(key(n) for n in numbers) for numbers in (range(4), range(4, 9), range(9, 10))]
    for number, held in enumerate(groups):
        at = np.searchsorted(index.heads, head_of(held))
        places = index.places(at.astype(np.int64))
        assert places == [(files[number], 0, offset) for offset in range(len(held))]
    assert join([index]) is index
    assert len(empty_index()) == 0 and empty_index().groups.shape == (0, 3)


def test_a_saved_index_is_found_while_its_files_stand(tmp_path: Path) -> None:
    files = parts(tmp_path, range(4), range(4, 9))
    one, both = index_file(tmp_path, files[0]), join([index_file(tmp_path, f) for f in files])
    kept = save(tmp_path, one)
    assert kept.files == one.files and kept.rows.tolist() == one.rows.tolist()
    assert load(tmp_path, frozenset(files)).files == one.files
    save(tmp_path, both)
    assert len(list(tmp_path.glob("index-*"))) == 1, "an older one goes"
    found = load(tmp_path, frozenset(files))
    assert found.heads.tolist() == both.heads.tolist() and found.files == both.files
    assert found.groups.tolist() == both.groups.tolist()
    assert load(tmp_path, frozenset(files[:1])).files == ()
    assert not list(tmp_path.glob(".index-*"))
    again = save(tmp_path, both)
    assert again.rows.tolist() == both.rows.tolist()
    assert not list(tmp_path.glob(".index-*")), "nor beside one that was saved before"


def test_of_two_saved_indexes_the_larger_one_is_mapped(tmp_path: Path) -> None:
    """Two processes may save one each at the same moment."""
    files = parts(tmp_path, range(4), range(4, 9), range(9, 10))
    for count in (1, 3, 2):
        save(tmp_path, join([index_file(tmp_path, file) for file in files[:count]]))
        (made,) = tmp_path.glob("index-*")
        made.rename(tmp_path / f"made-{count}")
    for made in tmp_path.glob("made-*"):
        made.rename(tmp_path / f"index-{made.name}")
    assert load(tmp_path, frozenset(files)).files == tuple(files)
    assert load(tmp_path, frozenset(files[:2])).files == tuple(files[:2])


@pytest.mark.parametrize("name", ["heads.npy", "rows.npy", "groups.npy", "files.json"])
@pytest.mark.parametrize("damage", ["gone", "empty", "other", "short"])
def test_an_index_that_is_not_whole_is_none_and_is_saved_again(
    tmp_path: Path, name: str, damage: str
) -> None:
    files = parts(tmp_path, range(4))
    index = index_file(tmp_path, files[0])
    save(tmp_path, index)
    (place,) = tmp_path.glob("index-*")
    path = place / name
    path.unlink()
    if damage == "empty":
        path.touch()
    elif damage == "other" and path.suffix == ".npy":
        np.save(path, np.zeros((3, 2)))
    elif damage == "short" and path.suffix == ".npy":
        told = getattr(index, path.stem)
        np.save(path, told[:, :2] if told.ndim == 2 else told[:1])
    elif damage != "gone":
        path.write_text(json.dumps(7))
    assert load(tmp_path, frozenset(files)).files == ()
    save(tmp_path, dataclasses.replace(index))
    assert load(tmp_path, frozenset(files)).rows.tolist() == index.rows.tolist()
