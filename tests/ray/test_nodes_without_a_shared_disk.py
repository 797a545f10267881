"""Nodes that see nothing of each other's disks: all that they share is an object store."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from srrag.runner import ingest
from tests.bucket import Bucket, s3_server
from tests.e2e.answered import GRAPH, assert_equal_tables
from tests.e2e.command import srrag, srrag_process
from tests.ray.nodes import node
from tests.ray.test_doctor_cluster import checks

pytestmark = [
    pytest.mark.ray,
    pytest.mark.e2e,
]
DOCUMENTS, SEGMENT_ROWS = 24, 8
"""Three parts."""


def can_mount() -> bool:
    """Whether this user may have a view of the disks of its own."""
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return tried.returncode == 0


@contextmanager
def apart(address: str, cache: Path, disk: Path) -> Iterator[None]:
    """A node in whose view the cache is another disk."""
    disk.mkdir()
    start = (
        f"mount --bind {disk} {cache} && exec {sys.executable} -m ray.scripts.scripts start "
        f"--address={address} --num-cpus=1 --object-store-memory={80 << 20} --block"
    )
    command = ["unshare", "--mount", "sh", "-c", start]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(200)


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Bucket]:
    cache = tmp_path / "cache"
    cache.mkdir()
    with pytest.MonkeyPatch.context() as patch, s3_server(patch, cache) as found:
        yield found


@pytest.mark.skipif(not can_mount(), reason="no right to a mount namespace")
def test_a_graph_is_built_by_nodes_that_share_an_object_store_alone(
    bucket: Bucket, tmp_path: Path
) -> None:
    corpus, cache = tmp_path / "corpus.jsonl", tmp_path / "cache"
    texts = (
        f"In {n} adults with ankle sprain, {n % 7} weeks of balance training reduced pain."
        for n in range(DOCUMENTS)
    )
    rows = ({"id": f"d{n}", "title": f"Trial {n}", "text": text} for n, text in enumerate(texts))
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    what = ["corpus=jsonl", f"corpus.path={corpus}", *GRAPH, "stages.names=null"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "SEGMENT_ROWS", SEGMENT_ROWS)
        srrag("build", f"root={tmp_path / 'here'}", *what)
    if ray.is_initialized():
        ray.shutdown()
    cluster = Cluster(initialize_head=True, head_node_args={**node(0), "include_dashboard": False})
    disks = [tmp_path / "disk-1", tmp_path / "disk-2"]
    try:
        with ExitStack() as nodes:
            ray.init(cluster.address, log_to_driver=False)
            for number, disk in enumerate(disks, start=2):
                nodes.enter_context(apart(cluster.address, cache, disk))
                until = time.monotonic() + 250
                while sum(each["Alive"] for each in ray.nodes()) < number:
                    assert time.monotonic() < until
                    time.sleep(0.2)
            ray.shutdown()
            joined = ["profile=ray", f"profile.runner.address={cluster.address}"]
            each = ["profile.resources.default.cpus=1", "profile.resources.default.workers=2"]
            built, _ = srrag_process(
                "build", f"root=s3://{bucket.name}/r", *what, *joined, *each,
                "+stages.entities.run.bucket_facts=20",
                command=[sys.executable, "-m", "tests.gate", f"--segment-rows={SEGMENT_ROWS}"],
            )  # fmt: skip
            assert all(any(disk.rglob("part-*.parquet")) for disk in disks), "both have worked"
            found = checks(cluster.address, f"s3://{bucket.name}/r")
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert built["rows"]["documents"] == DOCUMENTS
    assert found["storage"] == f"s3://{bucket.name}/r is one folder on 3 nodes"
    shutil.rmtree(next(cache.iterdir()))
    assert srrag("verify", f"root=s3://{bucket.name}/r")[0]["ok"]
    assert_equal_tables(next(cache.iterdir()), tmp_path / "here")
