"""A server whose replicas stand on the nodes that they are to stand on."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from srrag.serve.ray.deployments import Cluster, served
from tests.ray.nodes import actors, node, nodes_up
from tests.unit.serve.serving import CAST, free_port, settings

pytestmark = pytest.mark.ray
PIPELINE = "pipeline=dense"
HALF = {"retrieval": 0.5}
SHARDS = ["+deployments.windows={steps:[SearchDense],shards:2,cpus:0.5,resources:{retrieval: 0.5}}"]


def test_shards_stand_beside_the_retriever(sample_root: Path) -> None:
    told = settings(sample_root, PIPELINE, f"port={free_port()}", *SHARDS)
    with nodes_up(2) as cluster:
        there = cluster.add_node(**node(2), resources={"retrieval": 2})
        where = Cluster(address=cluster.address, resources=HALF, cpus=0.5)
        with served(told, where) as url:
            asked = httpx.post(f"{url}/v1/search", json={"query": CAST}, verify=False, timeout=60)
            assert asked.status_code == 200 and asked.json()
            for name in ("srrag:srrag", "srrag:windows-0", "srrag:windows-1"):
                assert actors(cluster, f"ServeReplica:{name}") == {there.node_id}, name


def test_a_ray_that_is_started_here_has_no_such_nodes(sample_root: Path) -> None:
    told = settings(sample_root, PIPELINE, *SHARDS)
    for cluster, apart in ((Cluster(), "deployments.windows"), (Cluster(resources=HALF), "ray")):
        with (
            pytest.raises(ValueError, match=rf"{apart}\.resources: only the nodes of a cluster"),
            served(told, cluster),
        ):
            pytest.fail("it came up")
