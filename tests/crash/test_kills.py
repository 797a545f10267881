"""A command that is killed before or after any unlink or rename is finished by the same command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY

COMMANDS = ("log", "prune", "build", "forget", "anew", "organize")
SOME = {"log": 13, "prune": 55, "forget": 160, "anew": 220, "organize": 5}
"""Of so many places one is tried."""


def harness(module: str, *arguments: object) -> Any:
    """Run a module whose forks start from a process without threads."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.crash.{module}", *map(str, arguments)],
        cwd=REPOSITORY, capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def assert_nothing_left(found: dict[str, Any]) -> None:
    assert found["undisturbed"] == {"traces": [], "problems": []}
    told = [(each["at"], each.get("traces"), each["problems"][:3]) for each in found["failed"]]
    assert found["failed"] == [], told[:5]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was found of each command, in one process: it imports all that they need once."""
    asked = (f"{command}={every}" for command, every in SOME.items())
    found: dict[str, Any] = harness("harness", tmp_path_factory.mktemp("kills"), *asked)
    return found


@pytest.mark.parametrize("command", SOME)
def test_kills_at_some_places_leave_nothing(tried: dict[str, Any], command: str) -> None:
    assert tried[command]["kills"] >= 3
    assert_nothing_left(tried[command])


@pytest.mark.rounds
@pytest.mark.long(3000, "every place of a command is tried")
@pytest.mark.parametrize("command", COMMANDS)
def test_kills_at_every_place_leave_nothing(tmp_path: Path, command: str) -> None:
    found = harness("harness", tmp_path, command)[command]
    print(f"{command}: {found['places']} places, {found['kills']} states, {found['seconds']} s")
    assert found["places"] >= 25 and found["kills"] >= 12
    assert_nothing_left(found)
