from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.engine.log import journal as module
from srrag.engine.log.completion_log import CompletionLog
from srrag.engine.log.entry import (
    ENTRY,
    Entry,
    entries_to_tables,
    faults_file,
    journal_file,
    new_name,
    part_file,
    read_receipt,
    receipt_file,
    table_to_entries,
)
from srrag.engine.log.journal import (
    Groups,
    Journal,
    is_written,
    open_part,
    read_journal,
    replace,
    seal,
    write_part,
)
from srrag.storage.manifest import DamagedError
from tests.forked import Forked
from tests.unit.engine.logs import entry, key, write_for_ever


def files(folder: Path, start: str) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(start))


def test_seals_by_rows_under_the_same_name(tmp_path: Path) -> None:
    journal = Journal(tmp_path, seal_rows=3)
    journal.append([entry(1), entry(2, fault="empty")])
    (name,) = files(tmp_path, "journal-")
    assert files(tmp_path, "part-") == []
    journal.append([entry(3)])
    stem = name.removeprefix("journal-").removesuffix(".jsonl")
    assert files(tmp_path, "") == [
        f"faults-{stem}.parquet", f"part-{stem}.json", f"part-{stem}.parquet",
    ]  # fmt: skip


def test_seals_by_age(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append([entry(1)])
    journal._born -= 1000
    assert len(files(tmp_path, "journal-")) == 1
    journal.seal_if_due()
    assert files(tmp_path, "journal-") == []
    assert len(files(tmp_path, "part-")) == 2


def test_a_long_append_fills_several_parts_and_keeps_its_order(tmp_path: Path) -> None:
    with closing(Journal(tmp_path, seal_rows=10)) as journal:
        journal.append([entry(number) for number in range(25)])
        assert len(files(tmp_path, "part-")) == 4
    names = sorted(path for path in tmp_path.glob("part-*.parquet"))
    log = CompletionLog(tmp_path)
    for number in range(25):
        log.lookup([key(number)])
    assert len(names) == 3
    assert [read_receipt(tmp_path, p.stem[5:]).completions for p in names] == [10, 10, 5]


def test_closing_an_unused_journal_leaves_nothing(tmp_path: Path) -> None:
    Journal(tmp_path / "log").close()
    assert not (tmp_path / "log").exists()


def test_names_sort_in_order_of_writing_even_if_the_clock_goes_back(tmp_path: Path) -> None:
    ahead = f"{(time.time_ns() // 10**6) + 10**7:015d}-{'0' * 32}"
    (tmp_path / f"journal-{ahead}.jsonl").write_bytes(entry(1, "first").line())
    with closing(Journal(tmp_path)) as journal:
        journal.append([entry(1, "second")])
    assert CompletionLog(tmp_path).lookup([key(1)])[key(1)].text == "first"


def test_a_new_journal_sorts_after_all_that_stand(tmp_path: Path) -> None:
    ahead = [new_name(time.time_ns() // 10**6 + days * 10**8) for days in (1, 3, 2)]
    for file in (journal_file(ahead[0]), part_file(ahead[1]), journal_file(ahead[2])):
        (tmp_path / file).touch()
    with closing(Journal(tmp_path)) as journal:
        journal.append([entry(1)])
        (new,) = {path.name for path in tmp_path.glob("journal-*")} - set(map(journal_file, ahead))
    assert new > journal_file(max(ahead))


def test_a_torn_last_line_is_left_out_and_read_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal-x.jsonl"
    line = entry(2).line()
    path.write_bytes(entry(1).line() + line[:-5])
    first, offset = read_journal(path)
    assert [row.key for row in first] == [key(1)]
    with path.open("ab") as file:
        file.write(line[-5:])
    assert [row.key for row in read_journal(path, offset)[0]] == [key(2)]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal-x.jsonl"
    path.write_bytes(entry(1).line() + b"\x00\x00\n" + entry(2).line())
    with pytest.raises(
        ValueError, match=rf"journal-x.jsonl: the line at byte {len(entry(1).line())} "
    ):
        read_journal(path)


def test_find_knows_what_was_just_sealed(tmp_path: Path) -> None:
    journal = Journal(tmp_path, seal_rows=3)
    journal.append([entry(1), entry(2), entry(5, fault="refusal")])
    journal.append([entry(3)])
    assert journal.find(key(1)) == entry(1)
    assert journal.find(key(5)) == entry(5, fault="refusal")
    assert journal.find(key(3)) == entry(3)
    assert journal.find(key(4)) is None


def test_a_live_writer_is_seen_and_a_dead_one_is_not(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append([entry(1)])
    (path,) = tmp_path.glob("journal-*")
    os.utime(path, (0, 0))
    assert is_written(path, settle_s=5)
    other = tmp_path / "journal-y.jsonl"
    other.write_bytes(b"")
    assert is_written(other, settle_s=5)
    os.utime(other, (0, 0))
    assert not is_written(other, settle_s=5)


def test_a_writer_whose_file_was_sealed_by_another_run_loses_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append([entry(1)])
    (path,) = tmp_path.glob("journal-*")
    path.rename(tmp_path / "gone")
    (tmp_path / "gone").unlink()
    journal.append([entry(2)])
    assert list(CompletionLog(tmp_path).lookup([key(1), key(2)])) == [key(2)]


def test_an_append_that_the_disk_refuses_raises_and_the_next_one_stands(tmp_path: Path) -> None:
    import resource

    journal = Journal(tmp_path)
    journal.append([entry(1)])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(entry(1).line()) + 20, limits[1]))
        with pytest.raises(OSError, match="File too large"):
            journal.append([entry(2)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    journal.append([entry(3)])
    assert set(CompletionLog(tmp_path).lookup([key(n) for n in range(5)])) == {key(1), key(3)}


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_writer_is_killed(tmp_path: Path) -> None:
    acknowledged: set[int] = set()
    start = 0
    for _ in range(5):
        writer = Forked(write_for_ever, tmp_path, start)
        while not files(tmp_path, "journal-"):
            assert writer.poll() is None, writer.communicate()
            time.sleep(0.01)
        time.sleep(random.uniform(0.05, 0.4))
        writer.kill()
        lines = writer.communicate()[0].split("\n")[:-1]
        acknowledged.update(map(int, lines))
        start = max(acknowledged, default=0) + 100
        log = CompletionLog(tmp_path, settle_s=0)
        assert log.lookup([key(n) for n in acknowledged]).keys() == {key(n) for n in acknowledged}
        log.recover()
        assert files(tmp_path, "journal-") == []
    found = log.lookup([key(number) for number in acknowledged])
    assert all(bool(found[key(n)].fault) == (n % 5 == 0) for n in acknowledged)
    totals = log.totals()
    rows = totals.completions + sum(totals.faults.values())
    assert len(acknowledged) <= rows <= len(acknowledged) + 5  # one in flight a kill
    assert totals.paid_twice == 0
    assert log.verify().problems == []


def test_a_reader_beside_a_writer_misses_nothing(tmp_path: Path) -> None:
    written: list[int] = []

    def write() -> None:
        with closing(Journal(tmp_path, seal_rows=3)) as journal:
            for number in range(120):
                journal.append([entry(number)])
                written.append(number)

    thread = threading.Thread(target=write)
    thread.start()
    log = CompletionLog(tmp_path, refresh_s=0)
    looks = 0
    while thread.is_alive():
        known = list(written)
        fresh = CompletionLog(tmp_path)
        for reader in (log, fresh):
            assert len(reader.lookup([key(number) for number in known])) == len(known)
        looks += 1
    thread.join()
    assert looks > 0
    assert log.totals().completions == 120


def test_what_would_be_too_much_for_a_part_begins_the_next(tmp_path: Path) -> None:
    with closing(Journal(tmp_path, seal_rows=4)) as journal:
        journal.append([entry(number) for number in range(3)])
        journal.append([entry(number) for number in range(3, 6)])
        (sealed,) = tmp_path.glob("part-*.json")
        assert json.loads(sealed.read_text())["completions"] == 3
    assert len(list(tmp_path.glob("part-*.json"))) == 2


def test_a_sealed_journal_is_closed(tmp_path: Path) -> None:
    with closing(Journal(tmp_path, seal_rows=1)) as journal:
        journal.append([entry(0)])
        opened = len(list(Path("/proc/self/fd").iterdir()))
        for number in range(1, 6):
            journal.append([entry(number)])
        assert len(list(Path("/proc/self/fd").iterdir())) <= opened


ONE, TWO, SIX = (f"{ms:015d}-{'0' * 32}" for ms in (1, 2, 6))


def held(folder: Path, file: str) -> list[list[Entry]]:
    """The entries of each row group."""
    with open_part(folder / file) as part:
        return [table_to_entries(part.read_row_group(n)) for n in range(part.num_row_groups)]


def by_key(*entries: Entry) -> list[Entry]:
    return sorted(entries, key=lambda each: each.key)


def test_a_journal_is_sealed_under_its_name_with_what_it_cost(tmp_path: Path) -> None:
    rows = [entry(1, usd=1), entry(2, fault="x"), entry(3, usd=2), entry(4, fault="empty", usd=4)]
    rows.append(entry(5, fault="x"))
    (tmp_path / journal_file(ONE)).touch()
    seal(tmp_path, ONE, rows)
    assert {path.name for path in tmp_path.iterdir()} == {
        part_file(ONE), faults_file(ONE), receipt_file(ONE),
    }  # fmt: skip
    assert held(tmp_path, part_file(ONE)) == [by_key(rows[0], rows[2])]
    assert held(tmp_path, faults_file(ONE)) == [by_key(rows[1], rows[3], rows[4])]
    receipt = module.read_receipt(tmp_path, ONE)
    assert (receipt.completions, list(receipt.faults.items())) == (2, [("empty", 1), ("x", 2)])
    assert (receipt.tokens_in, receipt.tokens_out, receipt.usd) == (35, 15, 7.0)
    assert receipt.replaces == [] and receipt.sha256.keys() == {part_file(ONE), faults_file(ONE)}


def test_of_nothing_no_part_is_made_and_the_journal_goes(tmp_path: Path) -> None:
    (tmp_path / journal_file(ONE)).touch()
    for _ in range(2):
        seal(tmp_path, ONE, [])
        assert list(tmp_path.iterdir()) == []


def test_faults_that_a_killed_attempt_left_are_not_taken_for_this_part(tmp_path: Path) -> None:
    (tmp_path / faults_file(ONE)).write_text("half")
    seal(tmp_path, ONE, [entry(1)])
    assert not (tmp_path / faults_file(ONE)).exists()


def test_a_part_of_faults_alone_holds_no_completion(tmp_path: Path) -> None:
    seal(tmp_path, ONE, [entry(1, fault="x")])
    assert held(tmp_path, part_file(ONE)) == []
    found = module.read_receipt(tmp_path, ONE)
    assert (found.completions, found.faults, found.tokens_in) == (0, {"x": 1}, 7)
    nothing = write_part(tmp_path, TWO, iter([ENTRY.empty_table()]), iter([ENTRY.empty_table()]))
    assert (nothing.rows, nothing.tokens_in, nothing.usd) == (0, 0, 0.0)
    assert not (tmp_path / faults_file(TWO)).exists()


def test_the_part_is_the_last_to_be_written_and_the_first_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    for name in ("commit", "commit_json"):
        real = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda path, *rest, real=real: (real(path, *rest), done.append(path.name))
        )

    def flush(descriptor: int) -> None:
        if str(Path(f"/proc/self/fd/{descriptor}").readlink()) == str(tmp_path):
            done.append("flushed")

    monkeypatch.setattr(os, "fsync", flush)
    seal(tmp_path, ONE, [entry(1), entry(2, fault="x")])
    assert done == [faults_file(ONE), receipt_file(ONE), part_file(ONE), "flushed"]
    gone: list[str] = []
    real = Path.unlink
    monkeypatch.setattr(
        Path, "unlink", lambda path, **named: (gone.append(path.name), real(path, **named))
    )
    module.remove(tmp_path, ONE)
    assert gone == [part_file(ONE), faults_file(ONE), receipt_file(ONE)]
    module.remove(tmp_path, ONE)
    assert list(tmp_path.iterdir()) == []


def test_neighbours_become_one_part_in_their_order(tmp_path: Path) -> None:
    seal(tmp_path, ONE, [entry(1, "first"), entry(2, fault="x")])
    seal(tmp_path, TWO, [entry(1, "second"), entry(3), entry(2, fault="y")])
    seal(tmp_path, SIX, [entry(4)])
    receipt = replace(tmp_path, [ONE, TWO, SIX])
    name = f"{ONE}-000001"
    assert {path.name for path in tmp_path.iterdir()} == {
        part_file(name), faults_file(name), receipt_file(name),
    }  # fmt: skip
    (rows,) = held(tmp_path, part_file(name))
    assert [row.key for row in rows] == sorted(key(n) for n in (1, 1, 3, 4))
    assert [row.text for row in rows if row.key == key(1)] == ["first", "second"]
    assert [row.fault for row in held(tmp_path, faults_file(name))[0]] == ["x", "y"]
    assert (receipt.replaces, receipt.rows, receipt.tokens_in) == ([ONE, TWO, SIX], 6, 42)


def test_rows_of_dropped_keys_are_left_out(tmp_path: Path) -> None:
    seal(tmp_path, ONE, [entry(1), entry(2), entry(3, fault="x"), entry(4, fault="x")])
    receipt = replace(tmp_path, [ONE], frozenset([key(1), key(3), key(9)]))
    assert held(tmp_path, part_file(f"{ONE}-000001")) == [[entry(2)]]
    assert held(tmp_path, faults_file(f"{ONE}-000001")) == [[entry(4, fault="x")]]
    assert (receipt.completions, receipt.faults, receipt.tokens_in) == (1, {"x": 1}, 14)


def test_small_row_groups_are_joined_up_to_their_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GROUP_ROWS", 4)
    for number, count in enumerate((5, 2, 1, 1, 1, 5, 3)):
        name = f"{number:015d}-{'0' * 32}"
        seal(tmp_path, name, [entry(10 * number + n) for n in range(count)])
    names = [f"{number:015d}-{'0' * 32}" for number in range(7)]
    replace(tmp_path, names)
    groups = held(tmp_path, part_file(f"{names[0]}-000001"))
    assert list(map(len, groups)) == [5, 4, 1, 5, 3]
    assert all(rows == by_key(*rows) for rows in groups)


def test_keys_lie_bare_and_pages_carry_checksums(tmp_path: Path) -> None:
    seal(tmp_path, ONE, [entry(number) for number in range(50)])
    path = tmp_path / part_file(ONE)
    columns = pq.ParquetFile(path).metadata.row_group(0)
    packed = {columns.column(n).path_in_schema: columns.column(n).compression for n in range(11)}
    assert packed.pop("key") == "UNCOMPRESSED" and set(packed.values()) == {"ZSTD"}
    data = path.read_bytes()
    at = data.index(sorted(key(number) for number in range(50))[20])
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with open_part(path) as part, pytest.raises(DamagedError, match=r"is damaged .*repair=true"):
        module.read_group(part, path, 0)


def test_only_parts_of_a_log_are_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_part(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("no table")
    pq.write_table(pa.table({"key": [b"x"]}), tmp_path / "other.parquet")
    for name, said in (("text", "is damaged"), ("other", "other columns")):
        with pytest.raises(DamagedError, match=rf"{name}\.parquet.*{said}"):
            open_part(tmp_path / f"{name}.parquet")


def test_recent_row_groups_and_few_files_are_kept(tmp_path: Path) -> None:
    names = [f"{number:015d}-{'0' * 32}" for number in range(4)]
    for number, name in enumerate(names):
        seal(tmp_path, name, [entry(number)])
    files = [part_file(name) for name in names]
    groups = Groups(tmp_path, keep=2)
    for file in (files[0], files[1], files[0], files[1]):
        assert len(groups.read(file, 0)) == 1
    assert groups.read.cache_info().misses == 2, "as many as are kept are read once"
    assert next(entries_to_tables([entry(1)])).equals(groups.read(files[1], 0))
    for file in files:
        groups.read(file, 0)
    assert groups.read.cache_info().currsize == groups._opened.cache_info().currsize == 2
