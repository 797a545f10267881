"""The command as a process that a test interrupts: in small parts, held or killed at a step.

`python -m tests.gate [--segment-rows=20] [--part-questions=14] [--never-ends] [--dies-at=7] build
root=…` runs the job with these differences:

- segment-rows: a part of the corpus ends after so many documents, so that few make several parts
- part-questions: a part of a sweep ends after so many questions
- never-ends: what is built is not published; the job waits there until the test has struck
- dies-at: the process kills itself before it renames or removes a file of its root the nth time
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

import srrag.runner.ingest
import srrag.runner.pipeline_run
from jobs.cli import main
from srrag.runner.ray.loopback import keep_ray_here
from srrag.storage.store import Store
from tests.warm_worker import with_warm_workers

FOR_EVER_S = 600.0


def wait_for_ever(store: Store, build: str, pointer: dict[str, Any]) -> None:
    """Stand in for the end of a build."""
    time.sleep(FOR_EVER_S)


def die_at(change: int, root: str) -> None:
    """Kill this process at a change of the files below a folder."""
    seen = 0

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in ("os.rename", "os.remove", "os.rmdir") and root in str(arguments[0]):
            seen += 1
            if seen == change:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(heard)


def run(argv: Sequence[str]) -> int:
    """Run the job."""
    parser = argparse.ArgumentParser(prog="python -m tests.gate")
    parser.add_argument("--segment-rows", type=int, default=srrag.runner.ingest.SEGMENT_ROWS)
    parser.add_argument(
        "--part-questions", type=int, default=srrag.runner.pipeline_run.PART_QUESTIONS
    )
    parser.add_argument("--never-ends", action="store_true")
    parser.add_argument("--dies-at", type=int, default=0)
    options, arguments = parser.parse_known_args(argv)
    srrag.runner.ingest.SEGMENT_ROWS = options.segment_rows
    srrag.runner.pipeline_run.PART_QUESTIONS = options.part_questions
    if options.never_ends:
        Store.write_pointer = wait_for_ever  # type: ignore[method-assign]
    if options.dies_at:
        roots = [item.removeprefix("root=") for item in arguments if item.startswith("root=")]
        die_at(options.dies_at, roots[0])
    elsewhere = any(item.startswith("profile.runner.address=") for item in arguments)
    if "profile=ray" in arguments and not elsewhere:
        keep_ray_here()  # before Ray is imported
        with_warm_workers()
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
