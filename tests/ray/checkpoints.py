"""When a checkpoint counts: once the run's controller has heard of it."""

from __future__ import annotations

import time
from pathlib import Path

SNAPSHOT = "checkpoint_manager_snapshot.json"
PATIENCE_S = 40.0


def wait_until_heard(run: Path) -> None:
    """Wait until the controller of a run of Ray Train lists the newest checkpoint in its folder."""
    newest = max(path.name for path in run.iterdir() if path.name.startswith("checkpoint_2"))
    until = time.monotonic() + PATIENCE_S
    while newest not in (run / SNAPSHOT).read_text("utf-8"):
        assert time.monotonic() < until, f"nobody heard of {newest}"
        time.sleep(0.05)
