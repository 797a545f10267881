from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from srrag.engine.log.lock import LogLock

HOLDER = """
import sys, time
from pathlib import Path
from srrag.engine.log.lock import LogLock
LogLock(Path(sys.argv[1])).take()
print("held", flush=True)
time.sleep(100)
"""


def test_a_second_run_is_refused_with_the_holders_name(tmp_path: Path) -> None:
    with LogLock(tmp_path) as lock:
        assert lock.held()
        with pytest.raises(ValueError, match=f"written by process {os.getpid()} on ") as refused:
            LogLock(tmp_path).take()
        assert "\n" not in str(refused.value)
        assert lock.held()
    assert not lock.held()


def test_a_released_lock_is_taken_at_once_and_one_file_stays(tmp_path: Path) -> None:
    for _ in range(3):
        with LogLock(tmp_path):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["lock-000003.json"]


def test_a_killed_holder_is_succeeded_at_once(tmp_path: Path) -> None:
    script = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match=f"process {holder.pid} on"):
            LogLock(tmp_path).take()
        holder.kill()
        deadline = time.monotonic() + 10
        while Path(f"/proc/{holder.pid}/stat").read_text().split(") ")[1][0] != "Z":
            assert time.monotonic() < deadline
        with LogLock(tmp_path) as lock:  # not yet reaped: a zombie holds nothing
            assert lock.held()


def another_machine(folder: Path, age_s: float) -> None:
    """A lock held by a process of another machine."""
    with LogLock(folder):
        (path,) = folder.glob("lock-*.json")
        held = json.loads(path.read_text())
    path.write_text(json.dumps(held | {"host": "elsewhere", "machine": "elsewhere"}))
    then = time.time() - age_s
    os.utime(path, (then, then))


def test_a_holder_elsewhere_is_succeeded_when_its_beat_is_old(tmp_path: Path) -> None:
    another_machine(tmp_path, age_s=50)
    with pytest.raises(ValueError, match=r"on elsewhere since .* 5[0-9] s ago"):
        LogLock(tmp_path).take()
    another = tmp_path / "other"
    another_machine(another, age_s=61)
    with LogLock(another) as lock:
        assert lock.held()


def test_the_lock_beats(tmp_path: Path) -> None:
    with LogLock(tmp_path, beat_s=0.02):
        (path,) = tmp_path.glob("lock-*.json")
        os.utime(path, (0, 0))
        deadline = time.monotonic() + 10
        while path.stat().st_mtime < 1:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_paused_run_notices_that_it_lost_the_log(tmp_path: Path) -> None:
    paused = LogLock(tmp_path, beat_s=1000)
    paused.take()
    (path,) = tmp_path.glob("lock-*.json")
    os.utime(path, (0, 0))
    with LogLock(tmp_path) as lock:
        assert not paused.held()
        paused.release()
        assert lock.held()
        with pytest.raises(ValueError, match="is being written"):
            LogLock(tmp_path).take()


def test_of_many_takers_one_wins(tmp_path: Path) -> None:
    for trial in range(10):
        folder = tmp_path / str(trial)
        another_machine(folder, age_s=100)
        barrier = threading.Barrier(8)
        locks = [LogLock(folder) for _ in range(8)]
        won: list[LogLock] = []

        def take(lock: LogLock, barrier: threading.Barrier, won: list[LogLock]) -> None:
            barrier.wait()
            try:
                lock.take()
                won.append(lock)
            except ValueError:
                pass

        threads = [threading.Thread(target=take, args=(lock, barrier, won)) for lock in locks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert won[0].held()
        won[0].release()


def test_a_damaged_lock_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "lock-000004.json").write_text("{")
    with pytest.raises(ValueError, match=r"lock-000004.json is damaged; delete it"):
        LogLock(tmp_path).take()


def test_the_highest_number_holds_the_log(tmp_path: Path) -> None:
    assert not LogLock(tmp_path).held(), "nothing was taken"
    with LogLock(tmp_path) as lock:
        (tmp_path / "lock-000000.json").write_text("{}")
        assert lock.held()
        (tmp_path / "lock-000001.json").unlink()
        assert not lock.held()
    another_machine(tmp_path, age_s=0)
    (held,) = tmp_path.glob("lock-*.json")
    held.rename(tmp_path / "lock-000007.json")
    with LogLock(tmp_path / "other"):
        pass
    (tmp_path / "other" / "lock-000001.json").rename(tmp_path / "lock-000001.json")
    with pytest.raises(ValueError, match="is being written by process"):
        LogLock(tmp_path).take()


def test_who_takes_a_log_that_another_takes_meanwhile_leaves_it_to_him(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LogLock(tmp_path):
        pass
    seen = [[1], [1, 2, 3]]
    monkeypatch.setattr(LogLock, "_numbers", lambda self: seen.pop(0))
    with pytest.raises(ValueError, match="was taken by another run just now"):
        LogLock(tmp_path).take()
    assert [path.name for path in tmp_path.iterdir()] == ["lock-000001.json"]


def test_a_released_lock_beats_no_more(tmp_path: Path) -> None:
    lock = LogLock(tmp_path, beat_s=0.01)
    lock.take()
    beats = lock._beats
    assert beats is not None and beats._thread.is_alive()
    lock.release()
    assert not beats._thread.is_alive()
    assert lock._renew(99) is False, "a beat of a lock that is not there ends the beating"


def test_a_damaged_lock_is_taken_once_its_beat_is_old(tmp_path: Path) -> None:
    with LogLock(tmp_path):
        (path,) = tmp_path.glob("lock-*.json")
        text = path.read_text()
    told = json.loads(text)
    for damaged in ("", "{}", json.dumps(told | {"pid": str(told["pid"])})):
        path.write_text(damaged)
        with pytest.raises(ValueError, match="is damaged; delete it"):
            LogLock(tmp_path).take()
    then = time.time() - 61
    os.utime(path, (then, then))
    with LogLock(tmp_path) as lock:
        assert lock.held()


def test_a_lock_whose_file_is_gone_is_not_held(tmp_path: Path) -> None:
    lock = LogLock(tmp_path)
    lock.take()
    assert lock.held()
    for path in tmp_path.glob("*lock*"):
        path.unlink()
    assert not lock.held()
    lock.release()
