"""Entries and logs to test with, and processes that are killed while they work on one."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from srrag.engine.log.completion_log import CompletionLog
from srrag.engine.log.entry import Entry
from srrag.engine.log.journal import Journal

KILLED_AT_EVERY_STEP = """
import json, os, shutil, signal, sys
from pathlib import Path
from srrag.engine.log.completion_log import CompletionLog
from srrag.engine.log.recover import recover
from tests.crash.imports import import_all
from tests.unit.engine.logs import key

folder, copies, works = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]


def run(copy, work):
    if work == "recover":
        recover(copy, settle_s=0, max_parts=2)
    else:
        CompletionLog(copy).forget([key(1), key(2), key(30)])


told = copies.with_name("imported.json")
for work in works:
    first = copies.with_name(f"first-{work}")
    shutil.copytree(folder, first)
    child = os.fork()
    if child == 0:
        run(first, work)
        told.write_text(json.dumps(list(sys.modules)))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    import_all(json.loads(told.read_text()))
    step, done = 0, False
    while not done:
        step += 1
        copy = copies / work / f"{step:03d}"
        shutil.copytree(folder, copy)
        child = os.fork()
        if child == 0:
            left = step

            def kill(event, args):
                global left
                if event in ("os.rename", "os.remove"):
                    left -= 1
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(kill)
            run(copy, work)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        done = status == 0
        assert done or os.WTERMSIG(status) == signal.SIGKILL, status
"""


def key(number: int) -> bytes:
    """The key of a number."""
    return hashlib.blake2b(str(number).encode(), digest_size=16).digest()


def entry(number: int, text: str = "", fault: str = "", **values: int) -> Entry:
    """An entry with the key of a number."""
    text = text or f"answer {number}"
    return Entry(key(number), "" if fault else text, fault, tokens_in=7, tokens_out=3, **values)


def model(rows: Iterable[Entry]) -> dict[bytes, Entry]:
    """What must be found of rows in their order: the first completion, else the first fault."""
    rows = list(rows)
    found: dict[bytes, Entry] = {}
    for row in [*(r for r in rows if not r.fault), *(r for r in rows if r.fault)]:
        found.setdefault(row.key, row)
    return found


def killed_at_every_step(folder: Path, copies: Path, *works: str) -> None:
    """Copy a log below `copies`, by work, once for each process that is killed at one.

    The n-th is killed before its n-th rename or removal; the last one is not.
    """
    script = [sys.executable, "-c", KILLED_AT_EVERY_STEP, str(folder), str(copies), *works]
    subprocess.run(script, check=True, timeout=200)


def print_found(folder: Path, numbers: Iterable[int]) -> int:
    """Print how many of these keys a log holds, as the work of a process."""
    print(len(CompletionLog(folder).lookup([key(number) for number in numbers])))
    return 0


def write_for_ever(folder: Path, start: int) -> int:
    """Write entries and print the number of each that stands, as the work of a process."""
    journal = Journal(folder, seal_rows=7)
    for number in range(start, 10**9):
        journal.append([entry(number, fault="empty" if number % 5 == 0 else "")])
        print(number, flush=True)
    return 0
