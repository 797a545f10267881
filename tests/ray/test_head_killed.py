"""A run whose Ray lost its head ends with one line, and goes on from what it had made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from srrag.core.step import Place
from srrag.runner.runner import LocalRunner
from srrag.storage.store import Store
from tests.toys import Double, number_parts, plan, values

pytestmark = pytest.mark.ray

SIZES = [3] * 8
CHAIN = plan(Double(pause_s=0.5), Double())


def test_a_run_without_its_head_says_so_and_goes_on_from_what_it_had_made(tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = number_parts(store, SIZES)
    command = [sys.executable, "-m", "tests.ray.test_head_killed", str(tmp_path)]
    first = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    done = CHAIN.fingerprint("s1")
    until = time.monotonic() + 150
    while not store.parts("s1", done) and first.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    (head,) = [
        child
        for child in psutil.Process(first.pid).children(recursive=True)
        if "gcs_server" in child.name()
    ]
    head.send_signal(signal.SIGKILL)
    said = first.communicate(timeout=200)[1]
    assert first.returncode == 1
    last = said.strip().splitlines()[-1]
    assert last.startswith("error: the head of Ray (GCS) at ") and last.endswith("command goes on")
    assert "Failed to connect to GCS" not in said and "Traceback" not in said
    assert 0 < len(store.parts("s1", done)) < len(parts)
    assert not psutil.pid_exists(head.pid) or psutil.Process(head.pid).status() == "zombie"
    LocalRunner().run(CHAIN, store, parts, Place())
    assert values(tmp_path, CHAIN, "s2", parts) == [4 * n for n in range(sum(SIZES))]


if __name__ == "__main__":
    import tests.toys
    from srrag.runner.ray.data import RayDataRunner
    from srrag.runner.ray.loopback import keep_ray_here
    from tests.warm_worker import with_warm_workers

    keep_ray_here()
    with_warm_workers()
    import ray.cloudpickle

    ray.cloudpickle.register_pickle_by_value(tests.toys)
    # The run's own clock: a hung one ends.
    threading.Timer(250, lambda: os._exit(9)).start()
    there = Store(sys.argv[1])
    RayDataRunner().run(CHAIN, there, [f"p{n}" for n in range(len(SIZES))], Place())
    os._exit(0)
