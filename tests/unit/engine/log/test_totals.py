"""A log as its users see it: looked up, counted, proven, mended, without a fault in sight."""

from __future__ import annotations

from pathlib import Path

import pytest

from srrag.engine.log import completion_log as module
from srrag.engine.log.completion_log import CompletionLog
from srrag.engine.log.entry import Entry
from srrag.engine.log.index import index_file, save
from srrag.engine.log.listing import journal_file, part_file, receipt_file
from srrag.engine.log.parts import replace, seal
from tests.unit.engine.logs import entry, key

NAMES = [f"{number:015d}-{'0' * 32}" for number in range(1, 9)]


def costing(number: int, tokens_in: int, tokens_out: int, fault: str = "") -> Entry:
    return Entry(key(number), f"{number}", fault, tokens_in=tokens_in, tokens_out=tokens_out, usd=1)


def texts(log: CompletionLog, *numbers: int) -> dict[int, str]:
    found = log.lookup([key(number) for number in numbers])
    assert all(found[each].key == each for each in found)
    return {number: found[key(number)].text for number in numbers if key(number) in found}


def test_all_rows_are_counted_and_those_after_the_first_of_a_key_twice(tmp_path: Path) -> None:
    seal(tmp_path, NAMES[0], [costing(1, 1, 2), costing(2, 4, 8, "x"), costing(3, 16, 32)])
    seal(tmp_path, NAMES[1], [costing(2, 64, 128), costing(1, 256, 512), costing(1, 7, 9)])
    lines = [costing(3, 1024, 2048, "y"), costing(4, 4096, 8192), costing(4, 3, 5)]
    (tmp_path / journal_file(NAMES[2])).write_bytes(b"".join(each.line() for each in lines))
    found = CompletionLog(tmp_path).totals()
    assert found.as_dict() == {
        "completions": 7, "faults": {"x": 1, "y": 1}, "tokens_in": 5471, "tokens_out": 10936,
        "usd": 9.0, "paid_twice": 5,
        "paid_twice_tokens_in": 256 + 7 + 3 + 4 + 1024,
        "paid_twice_tokens_out": 512 + 9 + 5 + 8 + 2048,
    }  # fmt: skip
    assert CompletionLog(tmp_path / "none").totals().paid_twice == 0


def test_keys_of_one_head_are_followed_to_their_own_rows(tmp_path: Path) -> None:
    keys = [bytes(8) + bytes([number]) * 8 for number in range(5)]
    seal(tmp_path, NAMES[0], [Entry(keys[3], "three"), Entry(keys[1], "one"), Entry(key(7), "7")])
    seal(tmp_path, NAMES[1], [Entry(keys[0], "none"), Entry(keys[2], fault="x")])
    (tmp_path / journal_file(NAMES[2])).write_bytes(Entry(keys[2], "two").line())
    log = CompletionLog(tmp_path)
    found = log.lookup([*keys, key(7), keys[0], key(8)])
    told = {each: entry.text for each, entry in found.items()}
    four = dict(zip(keys, ("none", "one", "two", "three"), strict=False))
    assert told == four | {key(7): "7"} and not found[keys[2]].fault
    assert log.totals().paid_twice == 1, "the fault under the key of a completion"


def test_the_folder_is_listed_when_it_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    log = CompletionLog(tmp_path, refresh_s=5)
    seal(tmp_path, NAMES[0], [entry(1, "a")])
    assert texts(log, 1) == {1: "a"}
    seal(tmp_path, NAMES[1], [entry(2, "b")])
    for after_s, found in ((0, {}), (4.5, {}), (5, {2: "b"})):
        now[0] = 1000.0 + after_s
        assert texts(log, 2) == found
    seal(tmp_path, NAMES[2], [entry(3, "c")])
    log.refresh()
    assert texts(log, 3) == {3: "c"}
    seal(tmp_path, NAMES[3], [entry(4, "d")])
    now[0] += 4
    assert texts(log, 4) == {}, "it was listed just now"


def test_a_merge_between_two_listings_is_no_loss(tmp_path: Path) -> None:
    seal(tmp_path, NAMES[0], [entry(1, "a")])
    seal(tmp_path, NAMES[1], [entry(2, "b")])
    log = CompletionLog(tmp_path, refresh_s=1e9)
    log.refresh()
    replace(tmp_path, NAMES[:2])
    assert texts(log, 1, 2) == {1: "a", 2: "b"}


def test_what_is_forgotten_is_found_in_what_was_written_since(tmp_path: Path) -> None:
    seal(tmp_path, NAMES[0], [entry(1), entry(2)])
    log = CompletionLog(tmp_path, refresh_s=1e9)
    log.refresh()
    seal(tmp_path, NAMES[1], [entry(1, "again"), entry(3)])
    assert log.forget([key(number) for number in (1, 3, 9, 8, 7)]) == 3
    assert texts(log, 1, 2, 3) == {2: "answer 2"}


def test_a_log_is_recovered_and_mended(tmp_path: Path) -> None:
    (tmp_path / journal_file(NAMES[0])).write_bytes(entry(1).line())
    seal(tmp_path, NAMES[1], [entry(2)])
    log = CompletionLog(tmp_path, refresh_s=1e9, settle_s=0)
    assert texts(log, 1, 2) == {1: "answer 1", 2: "answer 2"}
    assert log.recover().sealed == 1
    (tmp_path / part_file(NAMES[1])).unlink()
    (line,) = log.mend()
    assert part_file(NAMES[1]) in line and texts(log, 1, 2) == {1: "answer 1"}
    assert log.mend() == []


def test_a_proof_is_of_what_is_there_now(tmp_path: Path) -> None:
    seal(tmp_path, NAMES[0], [entry(1)])
    log = CompletionLog(tmp_path, refresh_s=1e9, keep_rows=0)
    proof = log.verify()
    assert proof.problems == [] and proof.totals is not None and proof.totals.completions == 1
    assert log.view.kept is not None and len(log.view.kept) == 1
    kept = log.view.kept
    log.view.kept = type(kept)(**{**vars(kept), "heads": kept.heads + 1})
    proof = log.verify()
    assert proof.totals is None and "does not fit" in proof.problems[0]
    seal(tmp_path, NAMES[1], [entry(2)])
    (tmp_path / receipt_file(NAMES[1])).unlink()
    proof = log.verify()
    assert proof.totals is None and len(proof.problems) == 1


def test_a_proof_reads_the_saved_index_even_if_nothing_was_asked(tmp_path: Path) -> None:
    seal(tmp_path, NAMES[0], [entry(1), entry(2)])
    index = index_file(tmp_path, part_file(NAMES[0]))
    save(tmp_path, type(index)(**{**vars(index), "rows": index.rows[::-1]}))
    (line,) = CompletionLog(tmp_path).verify().problems
    assert "its index does not fit the parts" in line


def test_totals_of_a_log_without_a_receipt_end_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal(tmp_path, NAMES[0], [entry(1)])
    seal(tmp_path, NAMES[1], [entry(2)])
    log = CompletionLog(tmp_path)
    real = log.view.refresh

    def merged_after() -> None:
        real()
        if (tmp_path / part_file(NAMES[0])).exists():
            replace(tmp_path, NAMES[:2])

    monkeypatch.setattr(log.view, "refresh", merged_after)
    assert log.totals().completions == 2, "a merge between listing and receipts"
    (tmp_path / receipt_file(f"{NAMES[0]}-000001")).unlink()
    log = CompletionLog(tmp_path)
    with pytest.raises(ValueError, match=r"part-.*\.json is missing"):
        log.totals()
