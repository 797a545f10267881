"""Count the mutants of a module that its unit tests kill: `make check-mutants`.

`python -m tests.mutation.score MODULE MOST TEST…` prints what was drawn and what lived as JSON. The
tests are collected once; each mutant is a fork in which the code of one function is another, and
which runs the tests that call this function until one fails. A mutant that hangs counts as killed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.mutation.mutate import Mutant, mutants

_KILLED, _LIVED, _STUCK = 1, 0, 2

MOST_S = 2.0
"""CPU-seconds of a test; dearer ones are not run against mutants."""

STUCK_S = 8.0
"""Seconds, besides ten times what a test takes, after which a mutant hangs in it."""


class Scorer:
    """A plugin of pytest that runs the collected tests against each mutant, in a fork."""

    def __init__(self, module: str, most: int) -> None:
        self.module, self.most = module, most
        self.result: dict[str, Any] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests once, then the mutants."""
        os.fsync = lambda descriptor: None  # no mutant is about a power cut
        module = importlib.import_module(self.module)
        path = Path(str(module.__file__))
        started = time.perf_counter()
        callers, passed, seconds = _called_by(session, str(path))
        cheap = [item for item in session.items if item in passed and seconds[item] < 15 * MOST_S]
        took: dict[pytest.Item, float] = {}
        for item in cheap:  # again: the first of a file pays what it imports
            began = time.perf_counter()
            done = _tried(module, None, {item: 60.0})
            again_s = time.perf_counter() - began
            if done == _LIVED and min(seconds[item], again_s) < MOST_S:
                took[item] = again_s
        lived = []
        drawn = mutants(path.read_text("utf-8"), str(path), self.most)
        for mutant in drawn:
            items = sorted({*callers[mutant.function]} & took.keys(), key=lambda item: took[item])
            limits = {item: STUCK_S + 10 * took[item] for item in items}
            if not items or _tried(module, mutant, limits) == _LIVED:
                lived.append(f"{mutant.name}" + ("" if items else " (no test calls it)"))
                print(f"  {path.name}:{mutant.line} {lived[-1]}", file=sys.stderr, flush=True)
        self.result = {
            "module": self.module,
            "drawn": len(drawn),
            "killed": len(drawn) - len(lived),
            "lived": lived,
            "seconds": round(time.perf_counter() - started, 1),
        }
        return True


def _called_by(
    session: pytest.Session, file: str
) -> tuple[dict[str, list[pytest.Item]], set[pytest.Item], dict[pytest.Item, float]]:
    """The tests that call each function of a file, those that pass, and how long they take.

    What a fixture calls counts for every test of its module, since they may share it. Runs in this
    process: fixtures that are shared stand for all mutants unless they end with a module.
    """
    callers: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    passed, seconds = set(), {}
    for number, item in enumerate(session.items):
        following = session.items[number + 1] if number + 1 < len(session.items) else None
        called: dict[str, set[str]] = {"setup": set(), "call": set(), "teardown": set()}
        started = sum(os.times()[:4])
        reports = _watched(item, following, file, called)
        seconds[item] = sum(os.times()[:4]) - started
        if all(report.passed for report in reports):
            passed.add(item)
        else:
            print(f"  not counted: {item.nodeid}", file=sys.stderr)
        shared = [each for each in session.items if each.path == item.path]
        for name in called["setup"]:
            callers[name] += [each for each in shared if each not in callers[name]]
        for name in called["call"] | called["teardown"]:
            callers[name] += [item] if item not in callers[name] else []
    return callers, passed, seconds


def _watched(
    item: pytest.Item, following: pytest.Item | None, file: str, called: dict[str, set[str]]
) -> list[pytest.TestReport]:
    from _pytest.runner import call_and_report

    reports = []
    for when in ("setup", "call", "teardown"):
        if when == "call" and not reports[0].passed:
            continue

        def look(
            frame: FrameType, event: str, argument: object, to: set[str] = called[when]
        ) -> None:
            if event == "call" and frame.f_code.co_filename == file:
                to.add(".".join(frame.f_code.co_qualname.split(".<locals>")[0].split(".")[:2]))

        threading.setprofile(look)
        sys.setprofile(look)
        try:
            more = {"nextitem": following} if when == "teardown" else {}
            reports.append(call_and_report(item, when, log=False, **more))  # type: ignore[arg-type]
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    return reports


def _tried(module: Any, mutant: Mutant | None, limits: dict[pytest.Item, float]) -> int:
    """Run tests in a fork with a mutant, if any, in place; whether one failed or took too long."""
    from _pytest.runner import runtestprotocol

    begun, begins = os.pipe()
    child = os.fork()
    if not child:
        code = _KILLED
        try:
            os.setpgid(0, 0)
            out = os.open(os.devnull, os.O_WRONLY)
            os.dup2(out, 1)
            os.dup2(out, 2)
            if mutant is not None:
                _function(module, mutant.function).__code__ = mutant.code
                _forget(module)
            for item in limits:
                os.write(begins, b".")
                item._initrequest()  # else the folders of the first run would be used again
                reports = runtestprotocol(item, log=False, nextitem=None)
                if not all(report.passed for report in reports):
                    break
            else:
                code = _LIVED
        finally:
            os._exit(code)
    os.close(begins)
    try:
        return _awaited(child, begun, list(limits.values()))
    finally:
        os.close(begun)


def _awaited(child: int, begun: int, limits: list[float]) -> int:
    """Wait for a fork, which writes a byte as it begins each test, at most so long a test."""
    os.set_blocking(begun, False)
    number, end = 0, time.monotonic() + limits[0]
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return _LIVED if status == 0 else _KILLED
        time.sleep(0.005)
        with contextlib.suppress(BlockingIOError):
            if came := len(os.read(begun, 1 << 10)):
                number += came
                end = time.monotonic() + limits[number - 1]
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return _STUCK


def _forget(module: Any) -> None:
    """Empty the caches of a module's functions and methods: they hold what was true before."""
    classes = [each for each in vars(module).values() if isinstance(each, type)]
    for holder in (module, *classes):
        for name in vars(holder):
            if callable(clear := getattr(getattr(holder, name, None), "cache_clear", None)):
                clear()


def _function(module: Any, name: str) -> Any:
    """The plain function behind a name: below properties, class methods, caches and wrappers."""
    found: Any = module
    for part in name.split("."):
        found = vars(found)[part]
    while True:
        if isinstance(found, property):
            found = found.fget
        elif isinstance(found, functools.cached_property):
            found = found.func
        elif isinstance(found, staticmethod | classmethod):
            found = found.__func__
        elif hasattr(found, "__wrapped__"):
            found = found.__wrapped__
        else:
            break
    assert isinstance(getattr(found, "__code__", None), CodeType), f"{name}: no function"
    return found


def score(module: str, tests: list[str], most: int) -> dict[str, Any]:
    """Draw mutants of a module and run tests against them."""
    scorer = Scorer(module, most)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist"]
    options += ["--disable-warnings", "-m", "not ray and not slow and not rounds"]
    stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        pytest.main([*options, *tests], plugins=[scorer])
    finally:
        sys.stdout = stdout
    return scorer.result


if __name__ == "__main__":
    print(json.dumps(score(sys.argv[1], sys.argv[3:], int(sys.argv[2]))))
