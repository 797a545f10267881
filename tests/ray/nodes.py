"""Several Ray nodes on this machine: bring them up, take one away, see what ran on which."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import ray
import ray.cloudpickle
from ray.cluster_utils import Cluster

from srrag.serve.ray.deployments import prepare

PATIENCE_S = 280.0
MISSED_SOON = {"health_check_period_ms": 1000, "health_check_failure_threshold": 3}
"""A node that is gone counts as gone after seconds, not after a quarter of a minute."""


def node(cpus: float) -> dict[str, Any]:
    """What a small node is started with."""
    return {"num_cpus": cpus, "object_store_memory": 80 * 1024**2}


@contextmanager
def nodes_up(*cpus: float) -> Iterator[Cluster]:
    """A cluster with a node for each of these numbers of logical CPUs, the head first."""
    if ray.is_initialized():
        ray.shutdown()
    prepare()
    head = {**node(cpus[0]), "include_dashboard": False, "_system_config": MISSED_SOON}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for each in cpus[1:]:
            cluster.add_node(**node(each))
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@contextmanager
def by_value(module: ModuleType) -> Iterator[None]:
    """Let what a module holds travel to workers, which may not import it."""
    ray.cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        ray.cloudpickle.unregister_pickle_by_value(module)


def ids(cluster: Cluster) -> set[str]:
    """The nodes that there are."""
    return {str(each.node_id) for each in cluster.list_all_nodes()}


def actors(cluster: Cluster, name: str, alive: bool = False) -> set[str]:
    """The nodes of all actors of a class, or of those that are alive."""
    return {
        actor["Address"]["NodeID"]
        for actor in cluster.global_state.actor_table(None, None, None).values()
        if name in actor["ActorClassName"] and (actor["State"] == "ALIVE" or not alive)
    }


def losable(cluster: Cluster, name: str) -> bool:
    """Whether a node beside the head holds a live actor of a class."""
    return any(each.node_id in actors(cluster, name, alive=True) for each in cluster.worker_nodes)


def lose(cluster: Cluster, name: str) -> None:
    """Take away a node that holds a live actor of a class, without a word to anybody."""
    busy = actors(cluster, name, alive=True)
    lost = next(each for each in cluster.worker_nodes if each.node_id in busy)
    cluster.remove_node(lost, allow_graceful=False)


@contextmanager
def serving(cluster: Cluster, *argv: str) -> Iterator[subprocess.Popen[str]]:
    """`srrag serve` on these nodes, in a process of its own, as users run it."""
    command = [sys.executable, "-m", "srrag", "serve", f"ray.address={cluster.address}", *argv]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as job:
        try:
            yield job
        finally:
            job.kill()


def delete_server(cluster: Cluster) -> None:
    """Delete the served application, as another process may, and do not wait: Serve ends then."""
    command = [sys.executable, "-c", "from ray import serve; serve.delete('srrag', False)"]
    env = {**os.environ, "RAY_ADDRESS": cluster.address}
    subprocess.run(command, env=env, check=True, timeout=PATIENCE_S)


class Running(threading.Thread):
    """A job beside the main thread, which alone may add and remove nodes."""

    def __init__(self, job: Callable[[], Any]) -> None:
        """Start it."""
        super().__init__(daemon=True)
        self._job = job
        self._value: Any = None
        self._failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Do the job."""
        try:
            self._value = self._job()
        except BaseException as error:  # for the main thread
            self._failure = error

    def wait_for(self, found: Callable[[], bool]) -> None:
        """Wait until something is found while the job runs."""
        until = time.monotonic() + PATIENCE_S
        while not found():
            assert self.is_alive(), f"the job was over before: {self._failure!r}"
            assert time.monotonic() < until, "it was not found"
            time.sleep(0.05)

    def ended(self) -> Any:
        """What the job returned; raises what it raised."""
        self.join(PATIENCE_S)
        assert not self.is_alive(), "the job hangs"
        if self._failure is not None:
            raise self._failure
        return self._value
