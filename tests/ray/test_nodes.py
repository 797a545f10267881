"""Nodes that leave and join while parts are made: the same tables, and only lost parts again."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import ray.cloudpickle
from ray._private.state import actors
from ray.cluster_utils import Cluster

import tests.toys
from srrag.runner.ray_data import RayDataRunner
from srrag.stage import Plan
from srrag.step import Place
from srrag.store import Store
from tests.toys import Double, number_parts, plan, values

pytestmark = pytest.mark.ray
NODE: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 80 * 1024**2}
PARTS = 24


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A head that runs nothing, and two nodes."""
    if ray.is_initialized():
        ray.shutdown()
    ray.cloudpickle.register_pickle_by_value(tests.toys)
    head = {**NODE, "num_cpus": 0, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        made.add_node(**NODE)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()
    ray.cloudpickle.unregister_pickle_by_value(sys.modules["tests.toys"])


def start(store: Store, made: Plan, parts: list[str], **settings: Any) -> threading.Thread:
    """Run a plan beside this thread: only the main one may add and remove nodes."""
    runner = RayDataRunner(stall_s=90, **settings)
    thread = threading.Thread(target=runner.run, args=(made, store, parts, Place()), daemon=True)
    thread.start()
    return thread


def wait_for(store: Store, made: Plan, count: int, thread: threading.Thread) -> set[str]:
    """The parts that stand as soon as there are so many of them."""
    until = time.monotonic() + 90
    while time.monotonic() < until and thread.is_alive():
        if len(standing := store.parts("s1", made.fingerprint("s1"))) >= count:
            return standing
        time.sleep(0.05)
    raise AssertionError(f"{count} parts did not come to stand")


def made_at(store: Store, made: Plan, parts: set[str]) -> dict[str, int]:
    fingerprint = made.fingerprint("s1")
    return {part: store.part_path("s1", fingerprint, part).stat().st_mtime_ns for part in parts}


def test_a_node_that_dies_and_one_that_joins(cluster: Cluster, tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = number_parts(store, [2] * PARTS)
    chain = plan(Double(pause_s=0.3), cpus=1, workers=4)
    thread = start(store, chain, parts)
    before = made_at(store, chain, wait_for(store, chain, 4, thread))
    nodes = cluster.list_all_nodes()
    lost, *_ = [node for node in nodes if node is not cluster.head_node]
    cluster.remove_node(lost, allow_graceful=False)
    wait_for(store, chain, 8, thread)
    joined = cluster.add_node(**NODE)
    thread.join(timeout=120)
    assert not thread.is_alive()
    assert values(tmp_path, chain, "s1", parts) == [2 * n for n in range(2 * PARTS)]
    assert made_at(store, chain, set(before)) == before, "what stood was not made again"
    worked_on = {actor["Address"]["NodeID"] for actor in actors().values()}
    assert joined.node_id in worked_on


def test_a_cluster_that_grows_is_waited_for(cluster: Cluster, tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = number_parts(store, [2] * 4)
    chain = plan(Double(), cpus=1, workers=6)
    with pytest.raises(ValueError, match=r"take 6 CPU; the cluster has 4: .* add nodes$"):
        RayDataRunner().run(chain, store, parts, Place())
    with pytest.raises(ValueError, match=r"waited 1 s for nodes"):
        RayDataRunner(grows_s=1).run(chain, store, parts, Place())
    thread = start(store, chain, parts, grows_s=60)
    time.sleep(1)
    assert store.parts("s1", chain.fingerprint("s1")) == set()
    cluster.add_node(**NODE)
    thread.join(timeout=120)
    assert values(tmp_path, chain, "s1", parts) == [2 * n for n in range(8)]
