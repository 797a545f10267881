"""The API as one Ray Serve deployment: ingress and every CPU step in one process.

Each hop between deployments costs more than most steps; what needs another device is the engine,
and that is asked over its own protocol.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray
from ray import serve
from ray.serve.config import AutoscalingConfig, HTTPOptions
from ray.serve.schema import ApplicationStatus

from srrag.runner.ray_data import RayDataRunner
from srrag.serve.app import create_app
from srrag.serve.host import Host
from srrag.serve.settings import Settings

NAME = "srrag"
_POLL_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Where the server runs, and how many replicas of it there are.

    With `address` "local" a Ray of `num_cpus` logical CPUs is started here, and ended with the
    server; "auto" joins the one of this host.
    """

    address: str = "local"
    num_cpus: int = 4
    object_store_mb: int = 80
    cpus: float = 1.0
    """Logical CPUs of a replica."""
    gpus: float = 0.0
    min_replicas: int = 1
    max_replicas: int = 1
    target_requests: float = 16.0
    """Requests in hand per replica above which one more is started."""
    upscale_delay_s: float = 5.0
    downscale_delay_s: float = 60.0
    start_s: float = 300.0
    """A server that is not up by then has failed."""


@serve.ingress()
class Replica:
    """One process: a host of pipelines behind its HTTP API."""

    def __init__(self, settings: Settings) -> None:
        """Open nothing yet: that belongs to the app's lifespan, in its event loop."""
        self._host = Host(settings)

    def __serve_build_asgi_app__(self) -> Any:
        """The app that Ray runs."""
        return create_app(self._host)

    def check_health(self) -> None:
        """Raise if a batch is stuck: Ray then starts another replica."""
        self._host.check()


def deployment(settings: Settings, cluster: Cluster) -> Any:
    """The deployment, with its own autoscaling, health check and drain."""
    limits = settings.limits
    options: dict[str, Any] = {
        "name": NAME,
        "ray_actor_options": {"num_cpus": cluster.cpus, "num_gpus": cluster.gpus},
        "autoscaling_config": AutoscalingConfig(
            min_replicas=cluster.min_replicas,
            max_replicas=cluster.max_replicas,
            target_ongoing_requests=cluster.target_requests,
            upscale_delay_s=cluster.upscale_delay_s,
            downscale_delay_s=cluster.downscale_delay_s,
        ),
        # More than the queue holds: so it is the replica that refuses, at once and with a reason.
        "max_ongoing_requests": 4 * (limits.max_waiting + limits.max_rows + limits.calls),
        "max_queued_requests": limits.max_waiting,
        "graceful_shutdown_wait_loop_s": 0.5,
        "graceful_shutdown_timeout_s": limits.drain_s + 5.0,
        "health_check_period_s": 5.0,
        "health_check_timeout_s": 30.0,
    }
    return serve.deployment(**options)(Replica).bind(settings)


@contextmanager
def served(settings: Settings, cluster: Cluster) -> Iterator[str]:
    """Serve until the block ends; gives the address. Drains and ends what it started.

    Raises RuntimeError if the server does not come up.
    """
    address = RayDataRunner(
        address=cluster.address,
        num_cpus=cluster.num_cpus,
        object_store_mb=cluster.object_store_mb,
    )
    # Ray makes its workers give way to all else (niceness 15): behind a build on the same machine
    # a question would wait for seconds.
    os.environ.setdefault("RAY_worker_niceness", "0")
    started = address.connect()
    try:
        serve.start(http_options=HTTPOptions(host=settings.host, port=settings.port))
        target = serve.RunTarget(deployment(settings, cluster), name=NAME, route_prefix="/")
        serve.run_many([target], wait_for_applications_running=False)
        _wait(cluster.start_s)
        name = f"[{settings.host}]" if ":" in settings.host else settings.host
        yield f"http://{name}:{settings.port}"
        serve.delete(NAME)  # drains; what ends the proxies at once comes after
    finally:
        if started:
            ray.shutdown()
        else:
            serve.shutdown()  # type: ignore[no-untyped-call]


def _wait(most_s: float) -> None:
    """Wait until the server is up; raises RuntimeError if it fails or takes too long."""
    until = time.monotonic() + most_s
    while time.monotonic() < until:
        app = serve.status().applications[NAME]
        if app.status == ApplicationStatus.RUNNING:
            return
        if app.status == ApplicationStatus.DEPLOY_FAILED:
            raise RuntimeError(_reason(app.message))
        time.sleep(_POLL_S)
    raise RuntimeError(f"the server was not up within {most_s:g} s")


def failed() -> str:
    """Why the server no longer answers, "" while it does."""
    app = serve.status().applications.get(NAME)
    if app is None:
        return "the server is gone"
    bad = app.status in (ApplicationStatus.DEPLOY_FAILED, ApplicationStatus.UNHEALTHY)
    return _reason(app.message) if bad else ""


def _reason(message: str) -> str:
    """The last line that says something of a traceback."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1] if lines else "the server failed"
