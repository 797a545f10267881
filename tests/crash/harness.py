"""Kill a command before and after each unlink and rename that it makes, and run it again.

Every attempt is a fork of one process that has imported everything and started nothing, on a copy
of one root. `python -m tests.crash.harness FOLDER COMMAND [EVERY]` prints what was found as JSON.
With EVERY the command is killed at each so-manieth place. Without, it runs once, and at every place
its root is copied: what is on disk then is what a kill would leave, since nothing else outlives it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.crash.roots import COMMANDS, make_base
from tests.crash.scan import state, traces

KILLED = 77
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


def strike(place: int) -> None:
    """Have this process end at a place; they are counted from 0, before and after each call."""
    seen = iter(range(10**9))

    def at_place() -> None:
        if next(seen) == place:
            os._exit(KILLED)

    watch(at_place, at_place)


class Keeper:
    """Copies a folder at each place, as a kill would leave it there; equal neighbours once."""

    def __init__(self, folder: Path, out: Path) -> None:
        self.folder, self.out = folder, out
        self.places, self.last = 0, ""

    def keep(self) -> None:
        files = sorted(path for path in (self.folder / "root").rglob("*"))
        states = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        if repr(states) != self.last:
            self.last = repr(states)
            shutil.copytree(self.folder, self.out / f"{self.places:05d}")
        self.places += 1
        (self.out / "places.txt").write_text(str(self.places), "utf-8")


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
    from srrag.runner.inventory import unexplained
    from srrag.runner.verify import verify
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


def killed(base: Path, folder: Path, command: str, place: int) -> bool:
    """Kill a command at a place, on a copy of the base; whether it came so far."""
    shutil.copytree(base, folder)

    def run() -> None:
        strike(place)
        COMMANDS[command](folder)

    code = forked(run, folder / "log.txt")
    assert code in (0, KILLED), (folder / "log.txt").read_text()[-3000:]
    return code == KILLED


def made_base(work: Path) -> Path:
    """The root that every attempt starts from; made once."""
    base, log = work / "base", work / "base.txt"
    work.mkdir(parents=True, exist_ok=True)
    if not base.exists():
        assert forked(lambda: make_base(base), log) == 0, log.read_text()[-3000:]
    return base


def main(work: Path, command: str, every: int = 1, of: int = 1) -> dict[str, Any]:
    """Try every so-manieth place of a command; returns the figures and what did not hold.

    Where all places are kept, each `of`-th of them is tried.
    """
    started = time.perf_counter()
    base = made_base(work)
    here = work / command
    whole, kept, log = here / "whole", here / "kept", here / "whole.txt"
    kept.mkdir(parents=True)
    shutil.copytree(base, whole)

    def undisturbed() -> None:
        keeper = Keeper(whole, kept)
        keep = keeper.keep if every == 1 else lambda: None
        watch(keep, keep)
        COMMANDS[command](whole)

    assert forked(undisturbed, log) == 0, log.read_text()[-3000:]
    assert forked(lambda: look(whole, command, here / "whole.json"), log) == 0, log.read_text()
    expected = json.loads((here / "whole.json").read_text("utf-8"))
    failed: list[dict[str, Any]] = []
    tried = 0
    for folder in _struck(base, here, command, every, of):
        found = attempt(folder, command)
        unequal = _unequal(expected["state"], found.get("state", {}))
        if found.get("traces") or found["problems"] or unequal:
            failed.append({**found, "at": folder.name, "state": {}, "unequal": unequal})
        else:
            shutil.rmtree(folder)
        tried += 1
    places = kept / "places.txt"
    return {
        "command": command,
        "places": int(places.read_text("utf-8")) if places.exists() else None,
        "kills": tried,
        "traces": sum(len(each.get("traces", [])) for each in failed),
        "unequal": sum(bool(each["unequal"]) for each in failed),
        "failed": failed,
        "undisturbed": {key: expected[key] for key in ("traces", "problems")},
        "seconds": round(time.perf_counter() - started, 1),
    }


def _struck(base: Path, here: Path, command: str, every: int, of: int) -> Iterator[Path]:
    """Folders as kills leave them: at every place as it was kept, else by kills at some."""
    if every == 1:
        yield from sorted(path for path in (here / "kept").iterdir() if path.is_dir())[::of]
        return
    place = every // 2
    while killed(base, folder := here / f"{place:05d}", command, place):
        yield folder
        place += every


def _unequal(left: dict[str, str], right: dict[str, str]) -> list[str]:
    return sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])), indent=1))
