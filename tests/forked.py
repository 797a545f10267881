"""Processes of tests, forked from one that has imported what they need and started nothing.

An interpreter of their own would import torch, Arrow and Hydra for seconds of a core before it does
what its test is about. That the command starts as users start it is what test_processes.py shows.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

REPOSITORY = Path(__file__).resolve().parents[1]
ANEW = multiprocessing.get_context("forkserver")
"""Not forked from the tests' own process: it may have run Rays, whose threads hold locks."""

ANEW.set_forkserver_preload(
    [
        "jobs.build", "srrag.config.run_job", "srrag.engine.openai.session",
        "srrag.model.network", "srrag.runner.pipeline_run", "tests.endpoint", "tests.gate",
    ]
)  # fmt: skip


class Forked:
    """Runs `work(*arguments)` in a fork, whose exit code it returns; used as a subprocess.Popen."""

    def __init__(self, work: Callable[..., int], *arguments: Any) -> None:
        self._told = tempfile.TemporaryDirectory()
        streams = [Path(self._told.name, name) for name in ("stdout", "stderr")]
        for stream in streams:
            stream.touch()
        self._streams = streams
        given = (work, arguments, list(map(str, streams)), dict(os.environ))
        self._process = ANEW.Process(target=_work, args=given, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, or the signal that killed it below zero; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The same."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        self._process.join(timeout)
        if (code := self.returncode) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; what it wrote to stdout and stderr."""
        self.wait(timeout)
        stdout, stderr = (stream.read_text("utf-8") for stream in self._streams)
        return stdout, stderr

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it, and it alone."""
        self.send_signal(signal.SIGKILL)


def _work(
    work: Callable[..., int],
    arguments: tuple[Any, ...],
    streams: list[str],
    environment: Mapping[str, str],
) -> None:
    """Become what a process would be that `work` is the whole of."""
    for number, stream in enumerate(streams, start=1):
        file = os.open(stream, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(REPOSITORY)
    random.seed()
    torch.set_num_threads(1)
    code = work(*arguments)
    sys.stdout.flush()
    atexit._run_exitfuncs()
    sys.exit(code)
