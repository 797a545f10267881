"""The test endpoint as a process of its own, which a killed client leaves running."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.endpoint import main
from tests.forked import Forked

PATIENCE_S = 100.0
"""On a busy machine its imports take their time."""


@contextmanager
def started(folder: Path, *options: str) -> Iterator[tuple[Forked, str]]:
    """Start the endpoint with options; yields the process and its base URL.

    It ends with the block, or by itself after its lifetime. Its counts lie in folder/counts.
    """
    port_file = folder / "port"
    files = ["--port-file", str(port_file), "--count-file", str(folder / "counts")]
    process = Forked(main, [*files, *options])
    try:
        until = time.monotonic() + PATIENCE_S
        while not port_file.exists():
            assert process.poll() is None, "the endpoint ended at once"
            assert time.monotonic() < until
            time.sleep(0.02)
        yield process, f"http://127.0.0.1:{port_file.read_text()}/v1"
    finally:
        process.terminate()
        process.wait(60)
