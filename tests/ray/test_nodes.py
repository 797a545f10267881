"""A run waits for a node that joins."""

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
from tests.ray.nodes import Running, by_value, node, nodes_up
from tests.toys import Double, number_parts, plan, values

pytestmark = pytest.mark.ray
CPUS = 2


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A head that runs nothing, and a node."""
    with nodes_up(0, CPUS) as made, by_value(tests.toys):
        ray.init(address=made.address, log_to_driver=False)
        yield made


def start(store: Store, made: Plan, parts: list[str], **settings: Any) -> Running:
    runner = RayDataRunner(stall_s=300, **settings)
    return Running(lambda: runner.run(made, store, parts, Place()))


def test_a_cluster_that_grows_is_waited_for(cluster: Cluster, tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = number_parts(store, [2] * 4)
    chain = plan(Double(), cpus=1, workers=4)
    with pytest.raises(ValueError, match=r"take 4 CPU; the cluster has 2: .* add nodes$"):
        RayDataRunner().run(chain, store, parts, Place())
    with pytest.raises(ValueError, match=r"waited 1 s for nodes"):
        RayDataRunner(grows_s=1).run(chain, store, parts, Place())
    running = start(store, chain, parts, grows_s=60)
    time.sleep(1)
    assert store.parts("s1", chain.fingerprint("s1")) == set()
    cluster.add_node(**node(CPUS))
    running.ended()
    assert values(tmp_path, chain, "s1", parts) == [2 * n for n in range(8)]
