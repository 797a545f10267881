"""The limit of a key over several replicas."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from srrag.serve.ray.deployments import Cluster, served
from tests.unit.serve.serving import free_port, settings
from tests.warm_worker import titled

pytestmark = pytest.mark.ray
KEY = {"authorization": "Bearer secret"}
A_MINUTE, BURST = 120, 12
SETTLED_S = 7.0
"""Replicas have heard of each other by then."""


def test_replicas_share_the_limit_of_a_key(
    ray_cluster: None, sample_root: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"clinic {hashlib.sha256(b'secret').hexdigest()}\n")
    told = settings(
        sample_root, "pipeline=bm25", f"port={free_port()}", f"api_keys={keys}",
        f"limits.per_minute={A_MINUTE}", f"limits.burst={BURST}",
    )  # fmt: skip
    with served(told, Cluster(cpus=0.5, min_replicas=2, max_replicas=2)) as url:
        for _ in range(10):  # on a busy machine they hear late, or nobody asks for seconds
            time.sleep(SETTLED_S)
            assert len(titled("ServeReplica:srrag")) == 2
            began, seen = time.monotonic(), Counter[int]()
            with httpx.Client(base_url=url, headers=KEY, timeout=60) as client:
                while (seconds := time.monotonic() - began) < 6:
                    seen[client.get("/v1/models").status_code] += 1
                    time.sleep(0.02)  # still many times what the limit allows
            allowed = BURST + A_MINUTE / 60 * seconds
            if 0.8 * allowed < seen[200] <= allowed + 1:
                break
    assert set(seen) == {200, 429}, seen
    assert 0.8 * allowed < seen[200] <= allowed + 1, (seen, allowed)
