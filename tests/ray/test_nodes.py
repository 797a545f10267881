"""Nodes that leave and join while parts are made: the same tables, and only lost parts again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

import tests.toys
from srrag.core.stage import Plan
from srrag.core.step import Place
from srrag.runner.ray.data import RayDataRunner
from srrag.storage.store import Store
from tests.ray.nodes import Running, actors, by_value, lose, node, nodes_up
from tests.toys import Double, number_parts, plan, values

pytestmark = pytest.mark.ray
CPUS = 2
PARTS, FREE = 60, 40
"""Parts, of which so many are made before the test opens the gate: more than a lost node held."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A head that runs nothing, and two nodes."""
    with nodes_up(0, CPUS, CPUS) as made, by_value(tests.toys):
        ray.init(address=made.address, log_to_driver=False)
        yield made


def start(store: Store, made: Plan, parts: list[str], **settings: Any) -> Running:
    runner = RayDataRunner(stall_s=90, **settings)
    return Running(lambda: runner.run(made, store, parts, Place()))


def wait_for(store: Store, made: Plan, count: int, running: Running) -> set[str]:
    """The parts that stand as soon as there are so many of them."""

    def standing() -> set[str]:
        return store.parts("s1", made.fingerprint("s1"))

    running.wait_for(lambda: len(standing()) >= count)
    return standing()


def made_at(store: Store, made: Plan, parts: set[str]) -> dict[str, int]:
    fingerprint = made.fingerprint("s1")
    return {part: store.part_path("s1", fingerprint, part).stat().st_mtime_ns for part in parts}


# test_three_nodes.py takes nodes away, and below a build waits for one that joins.
@pytest.mark.rounds
def test_a_node_that_dies_and_one_that_joins(cluster: Cluster, tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = number_parts(store, [2] * PARTS)
    gate = tmp_path / "gate"
    chain = plan(Double(gate=str(gate), held=2 * FREE), cpus=1, workers=4)
    running = start(store, chain, parts)
    before = made_at(store, chain, wait_for(store, chain, 4, running))
    lose(cluster, "PartWorker")
    wait_for(store, chain, FREE // 2, running)
    joined = cluster.add_node(**node(CPUS))
    running.wait_for(lambda: joined.node_id in actors(cluster, "PartWorker", alive=True))
    gate.touch()
    running.ended()
    assert values(tmp_path, chain, "s1", parts) == [2 * n for n in range(2 * PARTS)]
    assert made_at(store, chain, set(before)) == before, "what stood was not made again"


def test_a_cluster_that_grows_is_waited_for(cluster: Cluster, tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = number_parts(store, [2] * 4)
    chain = plan(Double(), cpus=1, workers=6)
    with pytest.raises(ValueError, match=r"take 6 CPU; the cluster has 4: .* add nodes$"):
        RayDataRunner().run(chain, store, parts, Place())
    with pytest.raises(ValueError, match=r"waited 1 s for nodes"):
        RayDataRunner(grows_s=1).run(chain, store, parts, Place())
    running = start(store, chain, parts, grows_s=60)
    time.sleep(1)
    assert store.parts("s1", chain.fingerprint("s1")) == set()
    cluster.add_node(**node(CPUS))
    running.ended()
    assert values(tmp_path, chain, "s1", parts) == [2 * n for n in range(8)]
