"""The test endpoint as a process of its own, which a killed client leaves running."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PATIENCE_S = 100.0
"""On a busy machine its imports take their time."""


@contextmanager
def started(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start `python -m tests.endpoint` with options; yields the process and its base URL.

    It ends with the block, or by itself after its lifetime. Its counts lie in folder/counts.
    """
    port_file = folder / "port"
    files = ["--port-file", str(port_file), "--count-file", str(folder / "counts")]
    command = [sys.executable, "-m", "tests.endpoint", *files, *options]
    process = subprocess.Popen(command, cwd=REPOSITORY)
    try:
        until = time.monotonic() + PATIENCE_S
        while not port_file.exists():
            assert process.poll() is None, "the endpoint ended at once"
            assert time.monotonic() < until
            time.sleep(0.02)
        yield process, f"http://127.0.0.1:{port_file.read_text()}/v1"
    finally:
        process.terminate()
        process.wait(10)
