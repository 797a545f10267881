"""`srrag doctor` on two nodes of one machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from jobs.doctor import cluster_probes
from srrag.config.compose import configure
from srrag.runner.doctor import Probe
from srrag.runner.ray import doctor
from srrag.runner.ray.nodes import Node, lacking_nodes

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    if ray.is_initialized():
        ray.shutdown()
    options: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 80 * 1024**2}
    two = Cluster(initialize_head=True, head_node_args={**options, "include_dashboard": False})
    two.add_node(**options)
    yield two.address
    ray.shutdown()
    two.shutdown()


def checks(address: str, root: Path | str, *overrides: str) -> dict[str, str]:
    given = ["profile=ray", f"profile.runner.address={address}", f"root={root}"]
    probes = cluster_probes(configure("doctor", [*given, *overrides]))
    return {name: told(probe) for name, probe in probes.items()}


def told(probe: Probe) -> str:
    try:
        return probe()
    except ValueError as error:
        return f"FAIL {error}"


def node(address: str, gpus: float = 0.0, **known: Any) -> Node:
    """A node in order, but for what is given."""
    return Node(
        address=address, cpus=8.0, gpus=gpus, gpu_names=("A100",) * int(gpus), gpu_memory_gb=80.0,
        memory_gb=64.0, reads=True, writes=True, model=True,
        **{"versions": {"ray": "2.60.0"}, "faiss_on_gpu": gpus > 0, "unreached": (), **known},
    )  # fmt: skip


def test_all_nodes_are_asked(cluster: str, tmp_path: Path) -> None:
    found = checks(
        cluster,
        tmp_path / "root",
        "cluster.nodes=2",
        "cluster.memory_gb=0",
        f"cluster.model={tmp_path}",
    )
    assert found["nodes"].startswith("2 nodes")
    assert found["storage"].endswith("is one folder on 2 nodes")
    assert found["models"] == f"{tmp_path} on 2 nodes"
    assert ray.__version__ in found["versions"]
    assert found["ports"].startswith("Ray's are reached from all nodes")
    assert "gpu faiss" not in found, "the profile asks for none"
    assert found["workers"].startswith("every worker")
    assert not [text for name, text in found.items() if text.startswith("FAIL") and name != "token"]
    assert list((tmp_path / "root").iterdir()) == [], "nothing is left behind"


def test_what_the_cluster_lacks_is_named(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = checks(
        cluster, tmp_path, "cluster.nodes=3", "cluster.wait_s=1", "cluster.gpus=2",
        "cluster.memory_gb=100000", "cluster.model=/no/such/model",
        "+profile.resources.vectors.gpus=1",
    )  # fmt: skip
    assert found["nodes"].startswith("FAIL 2 nodes")
    assert found["gpus"].startswith("FAIL Ray gives out 0, the profile asks for 2")
    assert "cluster.memory_gb=100000" in found["memory"]
    assert "no folder /no/such/model" in found["models"]
    assert found["workers"].startswith("FAIL profile.resources.vectors: no node has")
    assert "models" not in checks(cluster, tmp_path), "none was named"
    assert "models     not checked" in capsys.readouterr().err


def test_a_head_without_gpus_has_the_same_versions() -> None:
    """What the two images hold: builds of torch for one and the other, and vLLM on one alone."""
    cpu = {"ray": "2.60.0", "torch": "2.13.0+cpu"}
    gpu = {"ray": "2.60.0", "torch": "2.13.0", "vllm": "0.32.0"}
    head, worker = node("head", versions=cpu), node("worker", gpus=8, versions=gpu)
    told_ = doctor.versions([head, worker])
    assert told_ == "ray 2.60.0, torch 2.13.0, vllm 0.32.0"
    bare = node("bare", gpus=8, versions={**gpu, "vllm": "0.33.0"})
    with pytest.raises(ValueError, match=r"vllm: 0\.32\.0 on worker, 0\.33\.0 on bare"):
        doctor.versions([head, worker, bare])
    with pytest.raises(ValueError, match="on worker, none on other"):
        doctor.versions([head, worker, node("other", gpus=1, versions=cpu)])
    with pytest.raises(ValueError, match=r"ray: 2\.60\.0 on head, 2\.59\.0 on late"):
        doctor.versions([head, node("late", versions={**cpu, "ray": "2.59.0"})])


def test_gpus_want_their_faiss_and_ports_their_ways() -> None:
    good = [node("head"), node("worker", gpus=8)]
    assert doctor.faiss(good) == "on 1 nodes with GPUs"
    with pytest.raises(ValueError, match="worker has FAISS for the CPU"):
        doctor.faiss([node("worker", gpus=8, faiss_on_gpu=False)])
    assert doctor.ports(good) == "Ray's are reached from all nodes"
    with pytest.raises(ValueError, match=r"head does not reach 10\.0\.0\.2:6380"):
        doctor.ports([node("head", unreached=("10.0.0.2:6380",))])


def test_a_worker_that_fits_no_node_is_named(cluster: str) -> None:
    ray.init(address=cluster, log_to_driver=False)
    try:
        assert lacking_nodes([{"CPU": 2.0, "GPU": 0.0}] * 2) == ""
        assert lacking_nodes([{"CPU": 3.0, "GPU": 0.0}]) == (
            "one worker takes 3 CPU; the largest node has 2"
        )
    finally:
        ray.shutdown()


def test_no_cluster_is_one_failed_check(tmp_path: Path) -> None:
    if ray.is_initialized():
        ray.shutdown()
    found = checks("127.0.0.1:1", tmp_path)
    assert list(found) == ["nodes"]
    assert found["nodes"].startswith("FAIL no cluster at 127.0.0.1:1")


def test_a_profile_without_a_cluster_asks_none(tmp_path: Path) -> None:
    assert cluster_probes(configure("doctor", [f"root={tmp_path}"])) == {}
