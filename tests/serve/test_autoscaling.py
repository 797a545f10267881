"""Replicas that come with a load and go with it, while no request is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from perf.autoscaling import Record, drive, states
from srrag.serve.ray.deployments import Cluster, served
from srrag.serve.settings import Deployment
from tests.unit.serve.serving import CAST, free_port, paced, settings

pytestmark = pytest.mark.ray
QUICK = Cluster(
    cpus=0.1, min_replicas=0, max_replicas=2, target_requests=2.0, upscale_delay_s=0.5,
    downscale_delay_s=3.0, look_back_s=2.0, report_s=0.5,
)  # fmt: skip
RANKER = Deployment(steps=("PacedRanking",), cpus=0.1, min_replicas=0, max_replicas=2)
PAUSE_S = 1.0
"""Of a question: it keeps a replica busy, and the cores free for those that start."""
MOST_S = 60.0


def running(name: str) -> int:
    return states()[name].get("RUNNING", 0)


def all_replicas(name: str) -> int:
    return sum(states()[name].values())


class Events:
    """Clients by what has happened: a crowd until two replicas run, one until one is left."""

    def __init__(self) -> None:
        self.clients = 12
        self.came: float = 0.0
        self.left = 0
        self.thread = threading.Thread(target=self._watch)
        self._over = threading.Event()

    def __call__(self, second: float) -> int:
        return 0 if self._over.is_set() or second > 2 * MOST_S else self.clients

    def _until(self, happened: Callable[[], bool]) -> None:
        until = time.monotonic() + MOST_S
        while time.monotonic() < until and not happened():
            time.sleep(0.1)

    def _watch(self) -> None:
        self._until(lambda: running("srrag") == 2)
        self.came = time.monotonic()
        time.sleep(2)  # both answer
        self.clients = 1
        self._until(lambda: all_replicas("srrag") == 1)
        self.left = all_replicas("srrag")
        self._over.set()


def test_replicas_come_and_go_and_no_request_is_lost(ray_cluster: None, sample_root: Path) -> None:
    told = settings(sample_root, f"port={free_port()}")
    pipelines = {told.default: paced(told.pipelines[told.default], PAUSE_S)}
    told = replace(told, pipelines=pipelines, apart={"ranker": RANKER})
    with served(told, QUICK) as url:
        record, events = Record(), Events()
        events.thread.start()
        asyncio.run(drive(url, events, 12, record))
        events.thread.join()
        assert events.came and events.left == 1
        outcomes = {how for _, _, how in record.requests}
        assert outcomes == {"answered"}, record.reasons
        later = [ended - took for ended, took, _ in record.requests]
        assert max(later) + record.began > events.came, "asked of both, and of the one again"
        events._until(lambda: all_replicas("srrag") + all_replicas("ranker") == 0)
        assert all_replicas("srrag") + all_replicas("ranker") == 0, "what is asked nothing goes"
        answer = httpx.post(
            f"{url}/v1/answers", json={"question": CAST}, verify=False, timeout=4 * MOST_S
        )
        assert answer.status_code == 200 and running("srrag") and running("ranker"), "and wakes"
