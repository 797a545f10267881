"""Is every node of a Ray cluster ready?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from srrag.core.stage import Resources
from srrag.runner.doctor import Probe
from srrag.runner.ray.data import RayDataRunner
from srrag.runner.ray.nodes import Node, nodes_of, token_is_asked_for
from srrag.storage.mirror import shown


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a cluster should have; null leaves out a check."""

    nodes: int | None = None
    gpus: int = 0
    gpu_memory_gb: float = 0.0
    memory_gb: float = 0.0
    model: str | None = None
    """Folder of a model, which has to be on every node."""
    wait_s: float = 0.0
    """Seconds to wait for the nodes."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid number of nodes."""
        nodes = self.nodes or 0
        if isinstance(nodes, bool) or not isinstance(nodes, int) or nodes < 0:
            raise ValueError(f"nodes={nodes}: a whole number from 0 is needed")


def probes(
    runner: RayDataRunner,
    root: Path,
    expected: Expected,
    workers: Mapping[str, Resources],
    *,
    on_gpus: bool,
) -> dict[str, Probe]:
    """Ask every node of the cluster that a runner joins; returns the checks of their answers.

    `workers` are the resources of a worker by stage, `on_gpus` says that indexes lie on GPUs.
    Without a cluster, the only check fails.
    """
    try:
        nodes, with_token = ask(runner, expected, root)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error)
        return {"nodes": lambda: _fail(f"no cluster at {runner.address}: {reason}")}
    folder = expected.model
    return {
        "nodes": lambda: count(nodes, expected.nodes),
        "gpus": lambda: gpus(nodes, expected.gpus, expected.gpu_memory_gb),
        "memory": lambda: memory(nodes, expected.memory_gb),
        "versions": lambda: versions(nodes),
        "storage": lambda: storage(nodes, shown(root)),
        **({} if folder is None else {"models": lambda: models(nodes, folder)}),
        "workers": lambda: fit(workers, nodes),
        **({"gpu faiss": lambda: faiss(nodes)} if on_gpus else {}),
        "ports": lambda: ports(nodes),
        "token": lambda: token(with_token),
    }


def ask(runner: RayDataRunner, expected: Expected, root: Path) -> tuple[list[Node], bool]:
    """Return every node of the cluster, and whether the cluster asks for a token."""
    root.mkdir(parents=True, exist_ok=True)
    with runner.session():
        found = nodes_of(
            root,
            None if expected.model is None else Path(expected.model),
            wait_for=expected.nodes or 1,
            wait_s=expected.wait_s,
        )
        return found, token_is_asked_for()


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


def fit(workers: Mapping[str, Resources], nodes: Sequence[Node]) -> str:
    """The worker of every stage fits on some node."""
    for stage, need in workers.items():
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


def ports(nodes: Sequence[Node]) -> str:
    """Every node reaches Ray's ports of all."""
    for node in nodes:
        if node.unreached:
            return _fail(f"{node.address} does not reach {', '.join(node.unreached[:4])}")
    return "Ray's are reached from all nodes"


def token(asked_for: bool) -> str:
    """Check that the cluster asks for a token before it runs code."""
    return (
        "asked for" if asked_for else _fail("anyone may run code: start with RAY_AUTH_MODE=token")
    )


def _fail(reason: str) -> str:
    raise ValueError(reason)
