"""Kill a command before and after each unlink and rename that it makes, and run it again.

Every attempt is a fork of one process that has imported everything and started nothing, on a copy
of one root: a command runs once, and at its places its root is copied. What is on disk then is what
a kill would leave, since nothing else outlives it. `python -m tests.crash.harness FOLDER COMMAND …`
prints what was found as JSON, by command; of COMMAND=EVERY each so-manieth place is tried.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash.imports import import_all
from tests.crash.roots import COMMANDS, make_base
from tests.crash.scan import state, traces

FORGETS = ("forget", "anew")
CALLS = ("unlink", "remove", "rename", "replace", "rmdir")


def watch(before: Callable[[], None], after: Callable[[], None]) -> None:
    """Have something done before and after each unlink and rename of this process that does any.

    From then on nothing is flushed to disk: a process that is killed loses nothing it has written.
    """

    def wrapped(name: str, call: Callable[..., None]) -> Callable[..., None]:
        def run(*args: Any, **named: Any) -> None:
            if name in ("unlink", "remove") and not _is_there(*args, **named):
                call(*args, **named)  # raises
            before()
            call(*args, **named)
            after()

        return run

    for name in CALLS:
        setattr(os, name, wrapped(name, getattr(os, name)))


class Keeper:
    """Copies a folder at each so-manieth place as a kill would leave it; equal neighbours once."""

    def __init__(self, folder: Path, out: Path, every: int) -> None:
        self.folder, self.out, self.every = folder, out, every
        self.places, self.last = 0, ""

    def at_place(self) -> None:
        if self.places % self.every == self.every // 2:
            self.keep()
        self.places += 1
        (self.out / "places.txt").write_text(str(self.places), "utf-8")

    def keep(self) -> None:
        files = sorted(path for path in (self.folder / "root").rglob("*"))
        states = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        if repr(states) != self.last:
            self.last = repr(states)
            shutil.copytree(self.folder, self.out / f"{self.places:05d}")


def _is_there(path: Any, *, dir_fd: int | None = None) -> bool:
    try:
        os.lstat(path, dir_fd=dir_fd)
    except FileNotFoundError:
        return False
    return True


def forked(work: Callable[[], None], log: Path) -> int:
    """Run work in a fork; returns its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    os.fsync = lambda descriptor: None  # a killed process loses nothing that it has written
    try:
        with log.open("a") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def look(folder: Path, command: str, out: Path) -> None:
    """Write what stands in a root after a command, and what has to be gone and is not."""
    told = json.loads((folder / "told.json").read_text("utf-8"))
    left = traces(folder / "root", told) if command in FORGETS else []
    problems = proven(folder / "root", command, told["ids"][0])
    found = {"traces": left, "problems": problems, "state": state(folder / "root")}
    out.write_text(json.dumps(found), "utf-8")


def proven(root: Path, command: str, document: str) -> list[str]:
    """What the package itself finds amiss."""
    from srrag.runner.deletion.find_ids import traces_of
    from srrag.runner.verify import unexplained, verify
    from srrag.storage.store import Store

    store = Store(root)
    found = [
        problem for name in ("default", "coarse") for problem in verify(store, name)["problems"]
    ]
    if command in (*FORGETS, "prune"):  # these remove what nothing explains
        found += [f"{path}: unexplained" for path in unexplained(store)]
    if command in FORGETS:
        found += traces_of(store, document, root / "completions")
    return found


def attempt(folder: Path, command: str) -> dict[str, Any]:
    """Run a command again where it was killed, and look."""
    log, out = folder / "log.txt", folder / "found.json"

    def again() -> None:
        COMMANDS[command](folder)
        look(folder, command, out)

    if forked(again, log):
        return {"problems": ["again: " + log.read_text()[-2000:]]}
    return dict(json.loads(out.read_text("utf-8")))


def made_base(work: Path) -> Path:
    """The root that every attempt starts from; made once."""
    base, log = work / "base", work / "base.txt"
    work.mkdir(parents=True, exist_ok=True)
    if not base.exists():
        assert forked(lambda: make_base(base), log) == 0, log.read_text()[-3000:]
    return base


def main(work: Path, command: str, every: int = 1) -> dict[str, Any]:
    """Try every so-manieth place of a command; returns the figures and what did not hold."""
    started = time.perf_counter()
    base = made_base(work)
    here = work / command
    whole, kept, log = here / "whole", here / "kept", here / "whole.txt"
    kept.mkdir(parents=True)
    shutil.copytree(base, whole)

    def undisturbed() -> None:
        keeper = Keeper(whole, kept, every)
        watch(keeper.at_place, keeper.at_place)
        COMMANDS[command](whole)
        (here / "imported.json").write_text(json.dumps(list(sys.modules)), "utf-8")

    assert forked(undisturbed, log) == 0, log.read_text()[-3000:]
    import_all(json.loads((here / "imported.json").read_text("utf-8")))
    assert forked(lambda: look(whole, command, here / "whole.json"), log) == 0, log.read_text()
    expected = json.loads((here / "whole.json").read_text("utf-8"))
    failed: list[dict[str, Any]] = []
    tried = 0
    for folder in sorted(path for path in kept.iterdir() if path.is_dir()):
        found = attempt(folder, command)
        unequal = _unequal(expected["state"], found.get("state", {}))
        if found.get("traces") or found["problems"] or unequal:
            failed.append({**found, "at": folder.name, "state": {}, "unequal": unequal})
        else:
            shutil.rmtree(folder)
        tried += 1
    return {
        "command": command,
        "places": int((kept / "places.txt").read_text("utf-8")),
        "kills": tried,
        "traces": sum(len(each.get("traces", [])) for each in failed),
        "unequal": sum(bool(each["unequal"]) for each in failed),
        "failed": failed,
        "undisturbed": {key: expected[key] for key in ("traces", "problems")},
        "seconds": round(time.perf_counter() - started, 1),
    }


def _unequal(left: dict[str, str], right: dict[str, str]) -> list[str]:
    return sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))


if __name__ == "__main__":
    asked = {name: int(every or 1) for name, _, every in (a.partition("=") for a in sys.argv[2:])}
    told = {name: main(Path(sys.argv[1]), name, every) for name, every in asked.items()}
    print(json.dumps(told, indent=1))
