from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srrag.engine.log import completion_log as module
from srrag.engine.log.completion_log import (
    CompletionLog,
    KeyIndex,
    LogReader,
    RowPosition,
    head_of,
    index_file,
    join,
)
from srrag.engine.log.entry import Entry, journal_file, list_log, part_file, receipt_file
from srrag.engine.log.journal import Journal, replace, seal
from srrag.engine.log.recover import compact, recover
from srrag.storage import mirror
from tests.forked import Forked
from tests.unit.engine.logs import entry, key, killed_at_every_step, model, print_found

LARGE = 20_000


def write(folder: Path, *journals: Iterable[Entry]) -> None:
    """One sealed part a journal."""
    for rows in journals:
        with closing(Journal(folder)) as journal:
            journal.append(list(rows))


def parts(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("part-*.parquet"))


def rows_of(folder: Path) -> int:
    totals = CompletionLog(folder).totals()
    return totals.completions + sum(totals.faults.values())


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 20,000 entries in ten parts."""
    folder = tmp_path_factory.mktemp("large")
    with closing(Journal(folder)) as journal:
        for start in range(0, LARGE, 2000):
            journal.append([entry(number) for number in range(start, start + 2000)])
    return folder


def test_a_log_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    log = CompletionLog(tmp_path / "none")
    assert log.lookup([key(1)]) == {}
    assert log.lookup([]) == {}
    assert log.totals().completions == 0
    assert log.verify().problems == []
    log.recover()


def test_a_completion_wins_over_a_fault_and_the_first_over_the_later(tmp_path: Path) -> None:
    rows = [entry(1, fault="empty"), entry(2, "a"), entry(3, fault="x")]
    later = [entry(1, "good"), entry(2, "b"), entry(3, fault="y"), entry(2, "c")]
    write(tmp_path, rows)
    journal = Journal(tmp_path)
    journal.append(later)
    log = CompletionLog(tmp_path)
    expected = model(rows + later)
    assert [expected[key(n)].text for n in (1, 2)] == ["good", "a"]
    assert log.lookup([key(3), key(1), key(9), key(2), key(1)]) == expected
    journal.close()
    assert CompletionLog(tmp_path).lookup([key(n) for n in range(5)]) == expected
    assert log.lookup([key(n) for n in range(5)]) == expected


def test_a_key_of_another_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        CompletionLog(tmp_path).lookup([b"short"])


def test_what_was_written_since_is_found_after_a_refresh(tmp_path: Path) -> None:
    log = CompletionLog(tmp_path, refresh_s=1000)
    assert log.lookup([key(1)]) == {}
    journal = Journal(tmp_path)
    journal.append([entry(1)])
    assert log.lookup([key(1)]) == {}
    log.refresh()
    journal.append([entry(2)])
    log.refresh()
    assert len(log.lookup([key(1), key(2)])) == 2
    (tail,) = log.view.journals.values()
    assert len(tail.entries) == 2


def test_lookups_read_only_row_groups_with_hits(large: Path) -> None:
    log = CompletionLog(large)
    assert len(log.lookup([key(number) for number in range(4000, 6000)])) == 2000
    assert log.view.groups.read.cache_info().misses == 1
    log.lookup([key(number) for number in range(5000, 5500)])
    assert log.view.groups.read.cache_info().misses == 1
    assert log.lookup([key(-number) for number in range(1, 1000)]) == {}
    assert log.view.groups.read.cache_info().misses == 1
    found = log.lookup([key(number) for number in range(LARGE)])
    assert len(found) == LARGE
    assert log.view.groups.read.cache_info().misses <= 11
    assert all(found[key(n)].text == f"answer {n}" for n in range(0, LARGE, 997))


def many_parts(folder: Path, num_parts: int = 6) -> list[Entry]:
    """Parts with faults and repeated keys, and the journal of a dead writer."""
    rows: list[Entry] = []
    for part in range(num_parts):
        batch = [entry(10 * part + n) for n in range(5)]
        batch += [entry(1, f"again {part}"), entry(2, f"twice {part}", fault="x" * (part != 1))]
        batch += [entry(100 + part, fault="empty")]
        write(folder, batch)
        rows += batch
    last = [entry(70), entry(1, "last"), entry(71, fault="empty")]
    name = f"journal-{10**14:015d}-{'f' * 32}.jsonl"
    (folder / name).write_bytes(b"".join(row.line() for row in last) + entry(72).line()[:-1])
    return rows + last


def test_merging_changes_no_answer_and_no_count(tmp_path: Path) -> None:
    rows = many_parts(tmp_path)
    expected = model(rows)
    keys = [key(n) for n in range(200)]
    follower = CompletionLog(tmp_path, refresh_s=0)
    before = follower.totals()
    assert follower.lookup(keys) == expected
    recover(tmp_path, settle_s=0, max_parts=2)
    assert len(parts(tmp_path)) == 1
    for log in (follower, CompletionLog(tmp_path)):
        assert log.lookup(keys) == expected
        assert log.totals() == before
    assert log.verify().problems == []
    write(tmp_path, [entry(1, "new")], [entry(80)])
    recover(tmp_path, settle_s=0, max_parts=2)
    assert len(parts(tmp_path)) == 1
    assert CompletionLog(tmp_path).lookup(keys) == expected | {key(80): entry(80)}
    assert log.verify().problems == []


def test_a_reader_with_an_old_listing_goes_on_after_a_merge(tmp_path: Path) -> None:
    rows = many_parts(tmp_path)
    log = CompletionLog(tmp_path, refresh_s=1000)
    log.refresh()
    recover(tmp_path, settle_s=0, max_parts=2)
    assert log.lookup([key(n) for n in range(200)]) == model(rows)


@dataclass(frozen=True)
class Killed:
    """A log of these rows, and by work the copies that kills of it have left."""

    rows: list[Entry]
    folder: Path
    copies: Path


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    folder = tmp_path_factory.mktemp("killed")
    rows = many_parts(folder / "log", num_parts=2)
    killed_at_every_step(folder / "log", folder / "copies", "recover", "forget")
    return Killed(rows, folder / "log", folder / "copies")


@pytest.mark.slow
def test_a_kill_at_any_step_of_recovery_loses_and_doubles_nothing(killed: Killed) -> None:
    rows = killed.rows
    expected, before = model(rows), CompletionLog(killed.folder).totals()
    keys = [key(n) for n in range(200)]
    copies = sorted((killed.copies / "recover").iterdir())
    assert len(copies) > 15
    states = Counter()
    for copy in copies:
        log = CompletionLog(copy, settle_s=0)
        assert log.lookup(keys) == expected
        assert log.totals() == before
        assert log.verify().problems == []
        states[len(parts(copy))] += 1
        recover(copy, settle_s=0, max_parts=2)
        assert log.totals() == before
        assert CompletionLog(copy).lookup(keys) == expected
        assert CompletionLog(copy).totals() == before
        assert len(list(copy.iterdir())) == 3  # part, faults, receipt
    assert states[2] and states[3] and states[4] and states[1]


@pytest.mark.slow
def test_a_kill_at_any_step_of_forgetting_loses_nothing_else(killed: Killed) -> None:
    rows = killed.rows
    gone = {key(1), key(2), key(30)}
    keys = [key(n) for n in range(200)]
    expected = {k: row for k, row in model(rows).items() if k not in gone}
    copies = sorted((killed.copies / "forget").iterdir())
    assert len(copies) > 15
    for copy in copies:
        log = CompletionLog(copy)
        found = log.lookup(keys)
        assert {k: row for k, row in found.items() if k not in gone} == expected
        assert log.verify().problems == []
        log.forget(gone)
        assert log.lookup(keys) == expected
        assert CompletionLog(copy).lookup(keys) == expected
        assert log.totals().paid_twice == 0
        assert not any(b"again" in p.read_bytes() for p in copy.glob("*.jsonl"))
        assert log.verify().problems == []
        assert rows_of(copy) == sum(row.key not in gone for row in rows)


def test_every_flipped_byte_of_a_part_is_found(tmp_path: Path) -> None:
    write(tmp_path, [entry(n) for n in range(30)] + [entry(40, fault="empty")])
    for path in [*tmp_path.glob("part-*"), *tmp_path.glob("faults-*")]:
        whole = path.read_bytes()
        for at in range(0, len(whole), 11):
            if path.suffix == ".json" and whole[at : at + 1].isspace():
                continue
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :])
            (problem, *_) = CompletionLog(tmp_path).verify().problems
            assert str(tmp_path) in problem and "\n" not in problem
        path.write_bytes(whole)
    assert CompletionLog(tmp_path).verify().problems == []


def test_a_damaged_part_is_never_served(tmp_path: Path) -> None:
    write(tmp_path, [entry(n) for n in range(300)])
    (path,) = tmp_path.glob("part-*.parquet")
    whole = path.read_bytes()
    served = refused = 0
    for at in range(0, len(whole), 97):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            found = CompletionLog(tmp_path).lookup([key(n) for n in range(300)])
        except ValueError as error:
            assert str(path) in str(error) and "\n" not in str(error)
            refused += 1
        else:
            assert found == {key(n): entry(n) for n in range(300)}
            served += 1
    assert refused > 5 * served


def test_a_foreign_parquet_file_is_named(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / f"part-{'0' * 48}.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(ValueError, match=r"part-0+.parquet: not a part of a completions log"):
        CompletionLog(tmp_path).lookup([key(1)])


def test_many_processes_read_one_log(large: Path) -> None:
    readers = [Forked(print_found, large, range(-9, 3000)) for _ in range(2)]
    assert [reader.communicate(timeout=100)[0] for reader in readers] == ["3000\n", "3000\n"]


KEYS = [bytes([head]) * 8 + bytes([tail]) * 8 for head in range(3) for tail in range(3)]
ROWS = st.lists(
    st.builds(
        Entry,
        key=st.sampled_from(KEYS),
        text=st.text(max_size=5),
        fault=st.sampled_from(["", "", "empty", "timeout"]),
        tokens_in=st.integers(0, 9),
        tokens_out=st.integers(0, 9),
        usd=st.sampled_from([0.0, 0.5, 0.25]),
    ),
    max_size=6,
)
ACTIONS = st.one_of(
    st.tuples(st.just("append"), ROWS),
    st.tuples(st.sampled_from(["seal", "recover", "merge", "look", "reopen"]), st.none()),
    st.tuples(st.just("forget"), st.lists(st.sampled_from(KEYS), max_size=2)),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ACTIONS, max_size=14))
def test_the_log_equals_a_plain_model(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, list[object]]]
) -> None:
    folder = tmp_path_factory.mktemp("model")
    journal = Journal(folder, seal_rows=4)
    log = CompletionLog(folder, refresh_s=0, settle_s=0)
    rows: list[Entry] = []
    for action, values in actions:
        if action == "append":
            journal.append(values)
            rows += values
        elif action == "seal":
            journal.close()
        elif action == "recover":
            log.recover()
        elif action == "merge":
            compact(folder, max_parts=1, whole_rows=9)
        elif action == "reopen":
            log = CompletionLog(folder, refresh_s=0, settle_s=0)
        elif action == "forget":
            journal.close()
            assert log.forget(values) == sum(row.key in values for row in rows)
            rows = [row for row in rows if row.key not in values]
        if action != "append":
            assert log.lookup(KEYS) == model(rows)
    journal.close()
    totals = log.totals()
    assert log.lookup(KEYS) == model(rows)
    assert totals.completions == sum(not row.fault for row in rows)
    assert totals.faults == Counter(row.fault for row in rows if row.fault)
    assert totals.tokens_in == sum(row.tokens_in for row in rows)
    assert totals.usd == sum(row.usd for row in rows)
    assert totals.paid_twice == len(rows) - len(model(rows))
    counted = sum(row.tokens_out for row in model(rows).values())
    assert totals.paid_twice_tokens_out == totals.tokens_out - counted
    assert log.verify().problems == []
    shutil.rmtree(folder)


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
    log.recover()
    assert part_file(NAMES[0]) in parts(tmp_path)
    (tmp_path / part_file(NAMES[1])).unlink()
    (line,) = log.mend()
    assert part_file(NAMES[1]) in line and texts(log, 1, 2) == {1: "answer 1"}
    assert log.mend() == []


def test_a_proof_is_of_what_is_there_now(tmp_path: Path) -> None:
    seal(tmp_path, NAMES[0], [entry(1)])
    log = CompletionLog(tmp_path, refresh_s=1e9)
    proof = log.verify()
    assert proof.problems == [] and proof.totals is not None and proof.totals.completions == 1
    seal(tmp_path, NAMES[1], [entry(2)])
    (tmp_path / receipt_file(NAMES[1])).unlink()
    proof = log.verify()
    assert proof.totals is None and len(proof.problems) == 1


def test_totals_outlive_a_merge_and_name_a_part_that_is_lost(
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
    assert log.totals().completions == 2, "a merge between listing and reading"
    monkeypatch.setattr(log.view, "refresh", lambda: None)
    log.view.listing = list_log(tmp_path)
    monkeypatch.setattr(module, "list_log", lambda folder: log.view.listing)
    (tmp_path / part_file(f"{NAMES[0]}-000001")).unlink()
    with pytest.raises(FileNotFoundError):
        log.totals()


HOLDER = """
import sys, time
from pathlib import Path
from srrag.engine.log.completion_log import CompletionLog
with CompletionLog(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(100)
"""


def test_one_run_holds_a_log_until_it_ends_or_is_killed(tmp_path: Path) -> None:
    log = CompletionLog(tmp_path / "completions")
    script = [sys.executable, "-c", HOLDER, str(log.folder)]
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        held = rf"completions=.* is being written by process {holder.pid} on "
        with pytest.raises(ValueError, match=held), log.locked():
            pass
        holder.kill()
        holder.wait()
    own = pytest.raises(ValueError, match=str(os.getpid()))
    with log.locked(), own, CompletionLog(log.folder).locked():
        pass
    with log.locked():
        pass


def test_a_log_on_an_object_store_is_refused_in_one_line(tmp_path: Path) -> None:
    log = CompletionLog(mirror.located("s3://bucket/completions"))
    with pytest.raises(ValueError, match="object store cannot do") as refused, log.locked():
        pass
    assert "\n" not in str(refused.value)


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
