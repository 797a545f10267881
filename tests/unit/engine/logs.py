"""Entries and logs to test with, and processes that are killed while they work on one."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from srrag.engine.log.entry import Entry

KILLED_AT_EVERY_STEP = """
import json, os, shutil, signal, sys
from pathlib import Path
from srrag.engine.log.completion_log import CompletionLog
from srrag.engine.log.recover import recover
from tests.crash.imports import import_all
from tests.unit.engine.logs import key

folder, out, work = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]


def run(copy):
    if work == "recover":
        recover(copy, settle_s=0, max_parts=2)
    else:
        CompletionLog(copy).forget([key(1), key(2), key(30)])


first, told = out.with_name("first"), out.with_name("imported.json")
shutil.copytree(folder, first)
child = os.fork()
if child == 0:
    run(first)
    told.write_text(json.dumps(list(sys.modules)))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
import_all(json.loads(told.read_text()))
step, done = 0, False
while not done:
    step += 1
    copy = out / f"{step:03d}"
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
        run(copy)
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


def killed_at_every_step(folder: Path, out: Path, work: str) -> list[Path]:
    """Copies of a log, each left by a process killed before its n-th rename or removal."""
    script = [sys.executable, "-c", KILLED_AT_EVERY_STEP, str(folder), str(out), work]
    subprocess.run(script, check=True, timeout=200)
    return sorted(out.iterdir())
