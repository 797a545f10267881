from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from srrag.engine.log.completion_log import CompletionLog
from srrag.engine.log.journal import Journal, is_written, read_journal
from srrag.engine.log.listing import journal_file, new_name, part_file, read_receipt
from tests.unit.engine.logs import entry, key

WRITER = """
import sys
from pathlib import Path
from srrag.engine.log.journal import Journal
from tests.unit.engine.logs import entry

journal = Journal(Path(sys.argv[1]), seal_rows=7)
print("up", flush=True)
for number in range(int(sys.argv[2]), 10**9):
    journal.append([entry(number, fault="empty" if number % 5 == 0 else "")])
    print(number, flush=True)
"""


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
    journal = Journal(tmp_path, seal_s=0.05)
    journal.append([entry(1)])
    time.sleep(0.06)
    assert len(files(tmp_path, "journal-")) == 1
    journal.seal_if_due()
    assert files(tmp_path, "journal-") == []
    assert len(files(tmp_path, "part-")) == 2


def test_a_long_append_fills_several_parts_and_keeps_its_order(tmp_path: Path) -> None:
    with Journal(tmp_path, seal_rows=10) as journal:
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
    with Journal(tmp_path) as journal:
        journal.append([entry(1, "second")])
    assert CompletionLog(tmp_path).lookup([key(1)])[key(1)].text == "first"


def test_a_new_journal_sorts_after_all_that_stand(tmp_path: Path) -> None:
    ahead = [new_name(time.time_ns() // 10**6 + days * 10**8) for days in (1, 3, 2)]
    for file in (journal_file(ahead[0]), part_file(ahead[1]), journal_file(ahead[2])):
        (tmp_path / file).touch()
    with Journal(tmp_path) as journal:
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
        script = [sys.executable, "-c", WRITER, str(tmp_path), str(start)]
        with subprocess.Popen(script, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "up\n"
            timer = threading.Timer(random.uniform(0.05, 0.4), writer.send_signal, [signal.SIGKILL])
            timer.start()
            lines = writer.stdout.read().split("\n")[:-1]
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
        with Journal(tmp_path, seal_rows=3) as journal:
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
    with Journal(tmp_path, seal_rows=4) as journal:
        journal.append([entry(number) for number in range(3)])
        journal.append([entry(number) for number in range(3, 6)])
        (sealed,) = tmp_path.glob("part-*.json")
        assert json.loads(sealed.read_text())["completions"] == 3
    assert len(list(tmp_path.glob("part-*.json"))) == 2


def test_a_sealed_journal_is_closed(tmp_path: Path) -> None:
    with Journal(tmp_path, seal_rows=1) as journal:
        journal.append([entry(0)])
        opened = len(list(Path("/proc/self/fd").iterdir()))
        for number in range(1, 6):
            journal.append([entry(number)])
        assert len(list(Path("/proc/self/fd").iterdir())) == opened
