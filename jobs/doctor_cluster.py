"""The part of `srrag doctor` that asks every node of a Ray cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srrag.config import factory
from srrag.errors import UsageError
from srrag.runner.progress import say
from srrag.runner.ray.data import RayDataRunner
from srrag.storage.mirror import shown
from srrag.storage.store import Store

if TYPE_CHECKING:
    from srrag.runner.ray.nodes import Node

MAX_CLOCK_S = 1.0
"""Heartbeats and deadlines are compared between nodes; a second is far below the shortest."""

Probe = Callable[[], str]


def probes(config: Mapping[str, Any]) -> dict[str, Probe]:
    """Checks of the cluster that the profile's runner joins; none if it joins none.

    Raises UsageError for an invalid number of nodes or folder.
    """
    runner = factory.runner(config)
    if not isinstance(runner, RayDataRunner) or runner.address == "local":
        return {}
    asked = config["cluster"]
    try:
        found = ask(runner, asked, Store(config["root"]).root)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error)
        return {"nodes": lambda: _fail(f"no cluster at {runner.address}: {reason}")}
    nodes, with_token = found
    if asked["model"] is None:
        say("     models     not checked: cluster.model names no folder")
    return {
        "nodes": lambda: count(nodes, asked["nodes"]),
        "gpus": lambda: gpus(nodes, asked["gpus"], asked["gpu_memory_gb"]),
        "memory": lambda: memory(nodes, asked["memory_gb"]),
        "versions": lambda: versions(nodes),
        "clocks": lambda: clocks(nodes),
        "storage": lambda: storage(nodes, shown(Path(config["root"]))),
        **({"models": lambda: models(nodes, asked["model"])} if asked["model"] else {}),
        "workers": lambda: workers(config, nodes),
        **({} if config["profile"]["device"] == "cpu" else {"gpu faiss": lambda: faiss(nodes)}),
        "ports": lambda: ports(nodes, asked["serve_port"]),
        "token": lambda: token(with_token),
    }


def ask(runner: RayDataRunner, asked: Mapping[str, Any], root: Path) -> tuple[list[Node], bool]:
    """Return every node of the cluster, and whether the cluster asks for a token."""
    import ray

    from srrag.runner.ray.nodes import nodes_of, token_is_asked_for

    root.mkdir(parents=True, exist_ok=True)
    model = None if asked["model"] is None else Path(asked["model"])
    wait_for, port = asked["nodes"] or 1, asked["serve_port"]
    if isinstance(wait_for, bool) or not isinstance(wait_for, int) or wait_for < 0:
        raise UsageError(f"cluster.nodes={wait_for}: a whole number from 0 is needed")
    if port is not None and (isinstance(port, bool) or port not in range(1, 2**16)):
        raise UsageError(f"cluster.serve_port={port}: a port from 1 to {2**16 - 1} is needed")
    started = runner.connect()
    try:
        wait_s = asked["wait_s"]
        found = nodes_of(root, model, wait_for=wait_for, wait_s=wait_s, serve_port=port)
        return found, token_is_asked_for()
    finally:
        if started:
            ray.shutdown()


def count(nodes: Sequence[Node], wanted: int | None) -> str:
    """Check the number of nodes."""
    cpus = sum(node.cpus for node in nodes)
    text = f"{len(nodes)} nodes, {cpus:g} logical CPUs"
    return text if len(nodes) >= (wanted or 1) else _fail(f"{text}; cluster.nodes={wanted}")


def gpus(nodes: Sequence[Node], wanted: int, gpu_memory_gb: float) -> str:
    """Check that Ray has the GPUs that the profile asks for, each with enough memory."""
    total = sum(node.gpus for node in nodes)
    kinds = Counter(name for node in nodes for name in node.gpu_names)
    text = ", ".join(f"{n} × {name}" for name, n in sorted(kinds.items())) or "none"
    if total < wanted:
        return _fail(f"Ray gives out {total:g}, the profile asks for {wanted} (driver: {text})")
    for node in nodes:
        if node.gpus > len(node.gpu_names):
            return _fail(
                f"{node.address}: Ray gives out {node.gpus:g}, the driver has {len(node.gpu_names)}"
            )
        if node.gpus and node.gpu_memory_gb < gpu_memory_gb:
            return _fail(
                f"{node.address}: {node.gpu_memory_gb:.0f} GB a GPU; cluster.gpu_memory_gb="
                f"{gpu_memory_gb:g}"
            )
    return text


def memory(nodes: Sequence[Node], wanted_gb: float) -> str:
    """Every node has the memory that the profile asks for."""
    least = min(nodes, key=lambda node: node.memory_gb)
    text = f"{least.memory_gb:.0f} GB at least"
    if least.memory_gb < wanted_gb:
        return _fail(f"{least.address} has {text}; cluster.memory_gb={wanted_gb:g}")
    return text


def versions(nodes: Sequence[Node]) -> str:
    """All nodes that have a package have the same of it, and all with GPUs have it if one has.

    A build for the CPU alone is the same version: heads have those, and no vLLM.
    """
    same = {}
    for name in dict.fromkeys(name for node in nodes for name in node.versions):
        found = {
            node.versions.get(name, "none").partition("+")[0]: node.address
            for node in nodes
            if name in node.versions or node.gpus
        }
        if len(found) > 1:
            told = ", ".join(f"{version} on {address}" for version, address in found.items())
            return _fail(f"{name}: {told}")
        same[name] = next(iter(found))
    return ", ".join(f"{name} {version}" for name, version in same.items())


def clocks(nodes: Sequence[Node]) -> str:
    """Check that every clock is within MAX_CLOCK_S, plus the error of the measurement."""
    worst = max(nodes, key=lambda node: abs(node.clock_s))
    known = max(node.round_trip_s for node in nodes) / 2
    text = f"at most {abs(worst.clock_s):.3f} s apart from here, known to {known:.3f} s"
    return text if abs(worst.clock_s) <= MAX_CLOCK_S + known else _fail(f"{worst.address}: {text}")


def storage(nodes: Sequence[Node], root: str) -> str:
    """Check that this node and every other one read each other's files in the root."""
    for node in nodes:
        if not (node.reads and node.writes):
            what = "cannot read" if not node.reads else "cannot write"
            return _fail(f"{node.address} {what} root={root} as this machine sees it")
    return f"{root} is one folder on {len(nodes)} nodes"


def models(nodes: Sequence[Node], folder: str) -> str:
    """The model's folder is on every node."""
    for node in nodes:
        if not node.model:
            return _fail(f"{node.address} has no folder {folder}")
    return f"{folder} on {len(nodes)} nodes"


def workers(config: Mapping[str, Any], nodes: Sequence[Node]) -> str:
    """The largest worker of the profile fits on some node."""
    table = config["profile"]["resources"]
    for stage in table:
        need = factory.resources(config, stage)
        if not any(node.cpus >= need.cpus and node.gpus >= need.gpus for node in nodes):
            return _fail(
                f"profile.resources.{stage}: no node has {need.cpus:g} CPU and {need.gpus:g} GPU"
            )
    return "every worker of the profile fits on a node"


def faiss(nodes: Sequence[Node]) -> str:
    """The FAISS of every node with GPUs is the build for them."""
    for node in nodes:
        if node.gpus and not node.faiss_on_gpu:
            return _fail(
                f"{node.address} has FAISS for the CPU, so the dense index would be there; "
                "install faiss-gpu in place of faiss-cpu"
            )
    return f"on {sum(node.gpus > 0 for node in nodes)} nodes with GPUs"


def ports(nodes: Sequence[Node], serve_port: int | None) -> str:
    """Every node reaches Ray's ports of all, and nothing but Serve has the port of the API."""
    for node in nodes:
        if node.unreached:
            return _fail(f"{node.address} does not reach {', '.join(node.unreached[:4])}")
        if node.serve_port == "taken":
            return _fail(f"{node.address}: another than Serve has port {serve_port}")
    serving = sum(node.serve_port == "serve" for node in nodes)
    api = f"; {serve_port} is free, or Serve's ({serving} nodes)" if serve_port else ""
    return f"Ray's are reached from all nodes{api}"


def token(asked_for: bool) -> str:
    """Check that the cluster asks for a token before it runs code."""
    return (
        "asked for" if asked_for else _fail("anyone may run code: start with RAY_AUTH_MODE=token")
    )


def _fail(reason: str) -> str:
    raise ValueError(reason)
