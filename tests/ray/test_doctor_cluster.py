"""`srrag doctor` on three nodes of one machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from jobs import doctor_cluster
from jobs.launch import configure

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    if ray.is_initialized():
        ray.shutdown()
    options: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 80 * 1024**2}
    three = Cluster(initialize_head=True, head_node_args={**options, "include_dashboard": False})
    three.add_node(**options)
    three.add_node(**options)
    yield three.address
    ray.shutdown()
    three.shutdown()


def checks(address: str, root: Path, *overrides: str) -> dict[str, str]:
    given = ["profile=ray", f"profile.runner.address={address}", f"root={root}", *overrides]
    found = {}
    for name, probe in doctor_cluster.probes(configure("doctor", given)).items():
        try:
            found[name] = probe()
        except ValueError as error:
            found[name] = f"FAIL {error}"
    return found


def test_three_nodes_are_asked(cluster: str, tmp_path: Path) -> None:
    found = checks(cluster, tmp_path / "root", "cluster.nodes=3", f"cluster.model={tmp_path}")
    assert found["nodes"].startswith("3 nodes")
    assert found["storage"].endswith("is one folder on 3 nodes")
    assert found["models"] == f"{tmp_path} on 3 nodes"
    assert ray.__version__ in found["versions"]
    assert found["workers"].startswith("every worker")
    assert "apart" in found["clocks"]
    assert not [text for name, text in found.items() if text.startswith("FAIL") and name != "token"]
    assert list((tmp_path / "root").iterdir()) == [], "nothing is left behind"


def test_what_the_cluster_lacks_is_named(cluster: str, tmp_path: Path) -> None:
    found = checks(
        cluster, tmp_path, "cluster.nodes=4", "cluster.wait_s=1", "cluster.gpus=2",
        "cluster.memory_gb=100000", "cluster.model=/no/such/model",
        "+profile.resources.vectors.gpus=1",
    )  # fmt: skip
    assert found["nodes"].startswith("FAIL 3 nodes")
    assert found["gpus"].startswith("FAIL Ray gives out 0, the profile asks for 2")
    assert "cluster.memory_gb=100000" in found["memory"]
    assert "no folder /no/such/model" in found["models"]
    assert found["workers"].startswith("FAIL profile.resources.vectors: no node has")


def test_no_cluster_is_one_failed_check(tmp_path: Path) -> None:
    if ray.is_initialized():
        ray.shutdown()
    found = checks("127.0.0.1:1", tmp_path)
    assert list(found) == ["nodes"]
    assert found["nodes"].startswith("FAIL no cluster at 127.0.0.1:1")


def test_a_profile_without_a_cluster_asks_none(tmp_path: Path) -> None:
    assert doctor_cluster.probes(configure("doctor", [f"root={tmp_path}"])) == {}
