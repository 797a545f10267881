"""The nodes of a Ray cluster: capacity, hardware, software, access, and calls on all of them."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.autoscaler.sdk import request_resources
from ray.exceptions import RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from srrag.core.stage import Resources
from srrag.core.step import ParallelMap
from srrag.engine.base import Model
from srrag.runner.doctor import PACKAGES, installed
from srrag.runner.progress import say
from srrag.runner.ray.watch import listens
from srrag.storage import mirror

_POLL_S = 1.0
_CONNECT_S = 3.0
Address = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class Node:
    """One node, as seen by a process on it."""

    address: str
    cpus: float
    """Logical CPUs that Ray may assign."""
    gpus: float
    gpu_names: tuple[str, ...]
    gpu_memory_gb: float
    """Memory of its smallest GPU; 0 without a GPU."""
    memory_gb: float
    versions: dict[str, str]
    reads: bool
    """Whether it can read the file that this process wrote into the shared folder."""
    writes: bool
    """Whether this process can read the file that the node wrote there."""
    model: bool | None
    """Whether the model's folder exists; None without a model folder."""
    faiss_on_gpu: bool
    """Whether its FAISS is the build for GPUs."""
    unreached: tuple[str, ...]
    """Ports of Ray, on any node, that this node cannot reach."""


def nodes_of(root: Path, model: Path | None, *, wait_for: int, wait_s: float) -> list[Node]:
    """Ask every node, after `wait_for` nodes have joined or `wait_s` seconds have passed.

    `root` is the shared folder, `model` a folder that each node should have. Ray must be running.
    """
    until = time.monotonic() + wait_s
    while len(alive := alive_nodes()) < wait_for and time.monotonic() < until:
        time.sleep(_POLL_S)
    name = f".doctor-{os.getpid()}-{time.time_ns()}"
    mark = root / name
    mark.write_text(name, "utf-8")
    mirror.put(mark)
    try:
        ports = [
            (node["NodeManagerAddress"], node[key])
            for node in alive
            for key in ("NodeManagerPort", "ObjectManagerPort")
        ]
        return [_ask(node, mark, model, ports) for node in alive]
    finally:
        for path in root.glob(f"{name}*"):
            mirror.remove(path)


def token_is_asked_for() -> bool:
    """Whether this cluster requires a token."""
    from ray._private.authentication.authentication_utils import is_token_auth_enabled

    return bool(is_token_auth_enabled())


def _ask(node: dict[str, Any], mark: Path, model: Path | None, ports: Sequence[Address]) -> Node:
    there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    look = ray.remote(num_cpus=0, max_retries=0)(look_around).options(scheduling_strategy=there)
    name = f"{mark.name}-{node['NodeID']}"
    asked = (str(mark), name, None if model is None else str(model), ports)
    found: dict[str, Any] = ray.get(look.remote(*asked))
    written = mirror.bring(mark.with_name(name))
    return Node(
        address=node["NodeManagerAddress"],
        cpus=node["Resources"].get("CPU", 0.0),
        gpus=node["Resources"].get("GPU", 0.0),
        writes=written.exists() and written.read_text("utf-8") == name,
        **found,
    )


def look_around(
    mark: str, name: str, model: str | None, ports: Sequence[Address]
) -> dict[str, Any]:
    """Describe one node; runs on that node."""
    import faiss

    path, reads = Path(mark), False
    try:
        reads = mirror.read(path).decode("utf-8") == path.name
        path.parent.mkdir(parents=mirror.store_at(path) is not None, exist_ok=True)
        path.with_name(name).write_text(name, "utf-8")
        mirror.put(path.with_name(name))
    except OSError:
        pass  # `reads` and the check of the written file show the failure
    names, memory = _gpus()
    return {
        "reads": reads,
        "gpu_names": names,
        "gpu_memory_gb": memory,
        "memory_gb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        "versions": {"python": platform.python_version(), **installed((*PACKAGES, "vllm"))},
        "model": None if model is None else Path(model).is_dir(),
        # This tests the build of FAISS: Ray assigns no GPU to this process.
        "faiss_on_gpu": hasattr(faiss, "StandardGpuResources"),
        "unreached": tuple(
            f"{host}:{port}" for host, port in ports if not listens(host, port, _CONNECT_S)
        ),
    }


def _gpus() -> tuple[tuple[str, ...], float]:
    """Return the names and the least memory of all GPUs that nvidia-smi lists."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return (), 0.0
    asked = [command, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    told = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    rows = [line.rpartition(",") for line in told.stdout.splitlines() if "," in line]
    names = tuple(name.strip() for name, _, _ in rows)
    return names, min((float(size) / 1024 for _, _, size in rows), default=0.0)


MAX_RETRIES = 3
"""Retries of a task whose worker died; it writes the same files again."""


@contextmanager
def spread_over_ray(
    session: Callable[[], AbstractContextManager[None]], gpus: float = 0.0
) -> Iterator[ParallelMap]:
    """A parallel map that enters `session`, which keeps Ray running, at its first call."""
    with ExitStack() as entered:
        up: list[None] = []

        def spread(call: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
            if not up:
                up.append(entered.enter_context(session()))
            return over_ray(call, items, gpus)

        yield spread


def over_ray(call: Callable[[Any], Any], items: Sequence[Any], gpus: float = 0.0) -> list[Any]:
    """Return the values of a function on items, in order; each task takes one logical CPU.

    Raises the error of a task as the function raised it.
    """
    task: Any = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=MAX_RETRIES)(_called)
    try:
        values: list[Any] = ray.get([task.remote(call, item) for item in items])
    except RayTaskError as error:
        raise error.cause from None
    return values


def _called(call: Callable[[Any], Any], item: Any) -> Any:
    return call(item)


Bundle = dict[str, float]


_ASK_S = 2.0


_SAY_S = 30.0


@contextmanager
def capacity(pools: Sequence[Resources], models: Sequence[Model], grows_s: float) -> Iterator[None]:
    """Reserve the resources of the workers of all pools and engines.

    With `grows_s`, it asks the autoscaler for them, waits at most that many seconds, and releases
    the request at the end. Raises ValueError if the cluster is too small.
    """
    asked = bundles(pools, models)
    if grows_s and lacking_nodes(asked):
        # Ask for one bundle a worker, without its zero resources.
        request_resources(bundles=[{k: v for k, v in one.items() if v} for one in asked])
    try:
        _wait(asked, grows_s)
        yield
    finally:
        if grows_s and ray.is_initialized():
            request_resources(bundles=[])


def bundles(pools: Sequence[Resources], models: Sequence[Model]) -> list[Bundle]:
    """Return the resources of each worker."""
    found = [{"CPU": one.cpus, "GPU": one.gpus} for one in pools for _ in range(one.workers)]
    for model in dict.fromkeys(each.started for each in models):
        if (worker := model.worker()) is not None:
            found += [{"CPU": worker.cpus, "GPU": worker.gpus}] * model.replicas
    return found


def lacking_nodes(asked: Sequence[Bundle]) -> str:
    """Describe in one line which resources the cluster lacks; empty if it has enough."""
    have: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    for kind, key in (("CPU", "cpus"), ("GPU", "gpus")):
        total = sum(one[kind] for one in asked)
        if total > have.get(kind, 0.0):
            return (
                f"the workers of all pools and engines take {total:g} {kind}; the cluster "
                f"has {have.get(kind, 0.0):g}: lower profile.resources.*.{key} or add nodes"
            )
        most = max(asked, key=lambda one: one[kind], default={kind: 0.0})[kind]
        largest = max((node["Resources"].get(kind, 0.0) for node in alive_nodes()), default=0.0)
        if most > largest:
            return f"one worker takes {most:g} {kind}; the largest node has {largest:g}"
    return ""


def alive_nodes() -> list[dict[str, Any]]:
    """Return what Ray says of each node that is up."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node for node in nodes if node["Alive"]]


def _wait(asked: Sequence[Bundle], grows_s: float) -> None:
    began = said = time.monotonic()
    while reason := lacking_nodes(asked):
        now = time.monotonic()
        if now - began >= grows_s:
            waited = f" (waited {grows_s:g} s for nodes)" if grows_s else ""
            raise ValueError(reason + waited)
        if now - said > _SAY_S or said == began:
            said = now
            say(f"waiting for nodes: {reason}")
        time.sleep(min(_ASK_S, grows_s))
