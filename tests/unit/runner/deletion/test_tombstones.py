from __future__ import annotations

import time
from pathlib import Path

import pytest

from srrag.core.errors import UsageError
from srrag.corpus.record import RawRecord
from srrag.runner.deletion.tombstones import COPY, FILE, Tombstones, mark
from srrag.storage.manifest import DamagedError


def held(
    *units: str, sources: tuple[str, ...] = ("s",), keys: tuple[str, ...] = ()
) -> dict[str, list[str]]:
    return {"sources": list(sources), "units": list(units), "keys": list(keys)}


def forgotten(root: Path) -> Tombstones:
    found = Tombstones.of(root)
    found.add({"d1": held("u2", "u1", "u1", keys=("ff",)), "d2": held("u3", sources=("t",))}, ["t"])
    return found


def test_what_is_added_is_read_again_from_either_file_and_holds_no_name(tmp_path: Path) -> None:
    began = time.time()
    assert Tombstones.of(tmp_path).documents == {} and not Tombstones.of(tmp_path).has("d1")
    forgotten(tmp_path)
    found = Tombstones.of(tmp_path)
    assert began <= found.at_s <= time.time()
    assert [found.has(name) for name in ("d1", "d2", "u1", "d3")] == [True, True, False, False]
    assert [found.has_source(name) for name in ("t", "s")] == [True, False]
    assert found.marks() == set(map(mark, ("d1", "d2", "u1", "u2", "u3")))
    assert found.keys() == {b"\xff"}
    found.add({}, [f"s{number}" for number in range(9)])
    assert found.sources == sorted(found.sources) and len(found.sources) == 10
    found.take_back([], ["s3"])
    assert found.sources == sorted(found.sources) and len(found.sources) == 9
    assert found.documents[mark("d1")]["units"] == sorted(map(mark, ("u1", "u2")))
    for name in (FILE, COPY):
        text = (tmp_path / name).read_text("utf-8")
        assert not [each for each in ("d1", "u1") if f'"{each}"' in text]


def test_what_a_former_run_has_added_stays(tmp_path: Path) -> None:
    forgotten(tmp_path)
    again = Tombstones.of(tmp_path)
    again.add({"d1": held("u9")}, [])
    assert {mark(unit) for unit in ("u1", "u2", "u9")} <= Tombstones.of(tmp_path).marks()
    assert Tombstones.of(tmp_path).keys() == {b"\xff"}
    assert Tombstones.of(tmp_path).has_source("t")


def test_what_is_taken_back_is_read_again(tmp_path: Path) -> None:
    assert forgotten(tmp_path).take_back(["d1", "never"], []) == 1
    found = Tombstones.of(tmp_path)
    assert (found.has("d1"), found.has("d2"), found.has_source("t")) == (False, True, True)
    assert found.take_back([], ["t"]) == 1
    assert Tombstones.of(tmp_path).documents == {} and Tombstones.of(tmp_path).sources == []


def test_who_was_forgotten_by_its_source_is_not_taken_back_by_its_content(tmp_path: Path) -> None:
    found = forgotten(tmp_path)
    for documents, sources in ((["d2"], []), (["d1", "d2"], ["s"])):
        with pytest.raises(UsageError, match="forgotten by a source id, too"):
            found.take_back(documents, sources)
    assert Tombstones.of(tmp_path).has("d1") and Tombstones.of(tmp_path).has("d2")
    assert found.take_back(["d2"], ["t"]) == 1


def test_what_nobody_forgot_cannot_be_taken_back(tmp_path: Path) -> None:
    found = forgotten(tmp_path)
    for documents, sources in ((["typo"], []), ([], ["typo"]), ([], [])):
        with pytest.raises(UsageError, match="none of these was forgotten here"):
            found.take_back(documents, sources)
    found.add({}, ["later"])
    assert found.take_back([], ["later"]) == 0


def record(name: str, source: str = "x") -> RawRecord:
    return RawRecord(source, name, "text", name.encode())


def test_a_scan_skips_what_was_forgotten_and_counts_it(tmp_path: Path) -> None:
    records = [record("one"), record("two"), record("three", source="gone"), record("four")]
    assert list(Tombstones.of(tmp_path).passed(records)) == records
    found = Tombstones.of(tmp_path)
    found.add({record("one").raw_id: held()}, ["gone", "four"])
    assert list(found.passed(records)) == [record("two")] and found.skipped == 3
    alone = Tombstones.of(tmp_path / "other")
    (tmp_path / "other").mkdir()
    alone.add({}, ["two"])
    assert [each.source_id for each in alone.passed(records)] == ["one", "three", "four"]
    other = Tombstones(tmp_path / "other" / FILE, {mark(record("one").raw_id): held()})
    assert [each.source_id for each in other.passed(records)] == ["two", "three", "four"]


@pytest.mark.parametrize("lost", [FILE, COPY])
@pytest.mark.parametrize(
    "damage", ["gone", "cut", "changed", "[]", '{"documents": []}', '{"at_s": "x"}']
)
def test_either_file_is_written_again_of_the_other(tmp_path: Path, lost: str, damage: str) -> None:
    before = forgotten(tmp_path)
    path = tmp_path / lost
    text = path.read_text("utf-8")
    path.unlink()
    if damage != "gone":
        changed = {"cut": text[: len(text) // 2], "changed": text.replace('"at_s": 1', '"at_s": 2')}
        path.write_text(changed.get(damage, damage))
    quiet = (lost, damage) == (COPY, "gone")  # as an older version left it
    assert [lost in each for each in Tombstones.problems(tmp_path)] == [True] * (not quiet)
    if lost == FILE:
        with pytest.raises(DamagedError, match=r"forgotten.json.*repair=true") as told_of:
            Tombstones.of(tmp_path)
        assert ("is missing" in str(told_of.value)) == (damage == "gone")
    said = Tombstones.mend(tmp_path)
    told = [("written again of" in each, lost in each) for each in said]
    assert told == [(True, True)] * (not quiet)
    assert Tombstones.problems(tmp_path) == [] == Tombstones.mend(tmp_path)
    assert Tombstones.of(tmp_path).documents == before.documents


def test_without_either_nothing_is_amiss_and_with_none_whole_nothing_mends(tmp_path: Path) -> None:
    assert Tombstones.problems(tmp_path) == [] == Tombstones.mend(tmp_path)
    forgotten(tmp_path)
    for name in (FILE, COPY):
        (tmp_path / name).write_text("")
    with pytest.raises(ValueError, match="bring it back from a backup"):
        Tombstones.mend(tmp_path)
