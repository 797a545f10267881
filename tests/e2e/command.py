"""The `srrag` command in tests: in this process, or as the process that users start."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import jsonschema

from jobs.cli import main
from srrag.core.figures import schema
from tests.conftest import REPOSITORY

SRRAG = [sys.executable, "-m", "srrag"]


def here(*arguments: str) -> tuple[int, str, str]:
    """Run the command in this process; return its exit code, stdout and stderr.

    A start of the interpreter costs seconds of imports: that a job behaves the same as a process
    of its own is proven in test_processes.py, test_terminal.py and where jobs are killed.
    """
    stdout, stderr = io.StringIO(), io.StringIO()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings(), redirect_stdout(stdout), redirect_stderr(stderr):
            returned = main(arguments)
    finally:
        signal.signal(signal.SIGTERM, handler)
    return returned, stdout.getvalue(), stderr.getvalue()


def srrag(*arguments: str, code: int = 0) -> tuple[dict[str, Any], str]:
    """Run the command in this process; return the last line of stdout as JSON, and stderr."""
    return _told(arguments[0], *here(*arguments), code)


def srrag_process(
    *arguments: str, code: int = 0, command: Sequence[str] = SRRAG
) -> tuple[dict[str, Any], str]:
    """Run the command as a process; return the same."""
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, cwd=REPOSITORY, timeout=550
    )
    return _told(arguments[0], done.returncode, done.stdout, done.stderr, code)


def _told(
    job: str, returned: int, stdout: str, stderr: str, code: int
) -> tuple[dict[str, Any], str]:
    """Check the exit code and, by its schema, the last line: no job may break the contract."""
    assert returned == code, stderr[-2000:]
    lines = stdout.strip().splitlines()
    assert code != 2 or not lines, stdout
    assert not lines or lines[-1].startswith("{"), stdout
    summary: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    if summary:
        check_summary(job, summary)
    return summary, stderr


def check_summary(job: str, summary: dict[str, Any]) -> None:
    """Hold a summary to the schema of its job: every figure has value, low, high and n, once."""
    jsonschema.validate(summary, schema(job), jsonschema.Draft202012Validator)
    twice = summary.keys() & summary.get("metrics", {}).keys()
    assert not twice, f"{job}: at the top as in metrics: {twice}"


def fault(*arguments: str, code: int = 1) -> str:
    """Run the command, expecting failure; return its one line of error."""
    _, stderr = srrag(*arguments, code=code)
    errors = [line for line in stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1, stderr
    assert "Traceback" not in stderr
    return errors[0]
