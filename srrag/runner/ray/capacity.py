"""Check that a cluster can hold the workers of a run; where it can grow, wait for it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray.autoscaler.sdk import request_resources

from srrag.core.stage import Resources
from srrag.engine.base import Model
from srrag.runner.progress import say

Bundle = dict[str, float]
_POLL_S = 2.0
_SAY_S = 30.0


@contextmanager
def capacity(pools: Sequence[Resources], models: Sequence[Model], grows_s: float) -> Iterator[None]:
    """Reserve the resources of the workers of all pools and engines.

    With `grows_s`, it asks the autoscaler for them, waits at most that many seconds, and releases
    the request at the end. Raises ValueError if the cluster is too small.
    """
    asked = bundles(pools, models)
    if grows_s and lacking(asked):
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


def lacking(asked: Sequence[Bundle]) -> str:
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
    while reason := lacking(asked):
        now = time.monotonic()
        if now - began >= grows_s:
            waited = f" (waited {grows_s:g} s for nodes)" if grows_s else ""
            raise ValueError(reason + waited)
        if now - said > _SAY_S or said == began:
            said = now
            say(f"waiting for nodes: {reason}")
        time.sleep(min(_POLL_S, grows_s))
