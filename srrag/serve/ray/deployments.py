"""The server as a Ray Serve application.

One deployment runs the HTTP API and all CPU steps. Each engine that needs its own process gets
another one. Settings can move steps to further deployments, at the cost of one hop each.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import ray
from ray import serve
from ray.serve._private.constants import SERVE_LOGGER_NAME
from ray.serve.config import AutoscalingConfig, HTTPOptions
from ray.serve.handle import DeploymentHandle

from srrag.engine.base import Model
from srrag.runner.engines import engines_of
from srrag.runner.ray.engines import EngineReplica
from srrag.runner.ray.loopback import CLUSTERED
from srrag.serve.api.app import create_app
from srrag.serve.ray import retry_middleware
from srrag.serve.ray.handles import DeploymentStepCaller, Peers, opener
from srrag.serve.ray.starting import NAME, check_port, says_starting, says_stopping, wait_until_up
from srrag.serve.ray.step_worker import StepWorker
from srrag.serve.remote_steps import apart
from srrag.serve.service import PipelineService
from srrag.serve.settings import Limits, ServeSettings
from srrag.serve.snapshot import opening_fault

_EVERYWHERE = "[::]"


def keep_replica_here() -> None:
    """Make a replica's gRPC server listen on loopback, for which Ray has no setting."""
    if os.environ.get(CLUSTERED) != "0":
        return
    replica: Any = importlib.import_module("ray.serve._private.replica")
    bind = replica.add_port_to_grpc_server

    def bind_here(server: object, address: str) -> int:
        port: int = bind(server, address.replace(_EVERYWHERE, "127.0.0.1"))
        return port

    replica.add_port_to_grpc_server = bind_here


_SWITCH_S = 0.001

keep_replica_here()  # in every process that holds a replica, before its server is up


_AT_LEAST_0 = (
    "min_replicas", "min_engine_replicas", "max_engine_replicas", "engine_target_calls", "cpus",
    "gpus", "upscale_delay_s", "downscale_delay_s",
)  # fmt: skip
_ABOVE_0 = (
    "num_cpus", "object_store_mb", "max_replicas", "target_requests", "look_back_s", "report_s",
    "start_s",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Where the server runs, and how many replicas of it there are.

    The address "local" starts a Ray of `num_cpus` logical CPUs here and stops it with the server;
    "auto" joins the Ray that runs on this host.
    """

    address: str = "local"
    num_cpus: int = 4
    object_store_mb: int = 80
    cpus: float = 1.0
    """Logical CPUs of a replica."""
    gpus: float = 0.0
    min_replicas: int = 1
    """Replicas that always stand; with 0 the last one goes too, and the next request starts one."""
    max_replicas: int = 1
    target_requests: float = 16.0
    """Running requests per replica, on average, above which one more replica starts."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """Amount of each custom Ray resource that a replica takes; restricts it to nodes with them."""
    min_engine_replicas: int | None = None
    """Smallest number of replicas of an engine; None for `engine.replicas`, 0 as above."""
    max_engine_replicas: int = 0
    """Largest number of replicas of an engine; 0 keeps it at `engine.replicas`."""
    engine_target_calls: float = 0.0
    """Calls in hand per replica of an engine, on average, above which one more starts.

    0 for 80 % of the places that it has, or of its share of the calls that the server can make.
    """
    upscale_delay_s: float = 5.0
    """Seconds for which there has to be too much for the replicas before one more starts."""
    downscale_delay_s: float = 60.0
    """Seconds for which there has to be too little before one goes."""
    look_back_s: float = 10.0
    """Seconds over which running requests are averaged."""
    report_s: float = 2.0
    """Seconds between two reports of running requests to Ray's controller."""
    start_s: float = 300.0
    """Seconds after which a server that has not started, or has stopped answering, has failed."""

    def __post_init__(self) -> None:
        """Raise ValueError for a number that Ray would refuse once it runs, or take for another."""
        for name in _AT_LEAST_0:
            number = getattr(self, name)
            if number is not None and number < 0:
                raise ValueError(f"{name} is {number}: at least 0 is needed")
        for name in _ABOVE_0:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: it has to be positive")
        if 1 < self.max_replicas < self.min_replicas:  # 1 is the default: min_replicas alone holds
            raise ValueError(f"max_replicas is {self.max_replicas}: less than min_replicas")


@serve.ingress()
class ServerReplica:
    """One process: a pipeline service behind its HTTP API."""

    def __init__(
        self,
        settings: ServeSettings,
        steps: Mapping[str, Sequence[DeploymentHandle[Any]]],
        engines: Sequence[DeploymentHandle[Any]],
    ) -> None:
        """Bind the service; the app's lifespan opens it in its own event loop."""
        # A Python step keeps the interpreter for this long, and refusals have to wait for it.
        sys.setswitchinterval(_SWITCH_S)
        callers = {
            name: [DeploymentStepCaller(each) for each in shards] for name, shards in steps.items()
        }
        openers = {
            model: opener(model.name, engine)
            for model, engine in zip(_models(settings), engines, strict=True)
        }
        self._host = PipelineService(settings, move=apart(settings, callers), openers=openers)
        self._peers = Peers(self._host.rate)

    def __serve_build_asgi_app__(self) -> Any:
        """Build the ASGI app that Ray runs."""
        return retry_middleware.EndOnDisconnect(create_app(self._host))

    def check_health(self) -> None:
        """Raise if a batch is stuck: Ray then starts another replica."""
        self._peers.look()
        self._host.check()


class StepReplica(StepWorker):
    """One process: runs the steps of one deployment, or of one shard of it."""

    async def __del__(self) -> None:
        """Finish queued and running work."""
        await self.close()


class ModelReplica(EngineReplica):
    """A replica of a model as a deployment."""

    async def check_health(self) -> None:
        """Load the model; Ray sends no calls to a replica before this has passed once."""
        await self.load()

    async def __del__(self) -> None:
        """Release the session."""
        await self.close()


def application(settings: ServeSettings, cluster: Cluster) -> Any:
    """Build all deployments, each with autoscaling, a health check, a bounded queue and a drain."""
    limits = settings.limits
    # Larger than the queue, so that the replica itself refuses, at once and with a reason.
    most = 4 * (limits.max_waiting + limits.max_rows + limits.calls)
    steps = {
        name: [
            _deployment(
                StepReplica, name if chosen.shards == 1 else f"{name}-{shard}", settings, most,
                chosen, cluster,
            ).bind(settings, name, shard)
            for shard in range(chosen.shards)
        ]
        for name, chosen in settings.apart.items()
    }  # fmt: skip
    engines = [
        _engine(model, number, settings, cluster) for number, model in enumerate(_models(settings))
    ]
    ingress = _deployment(ServerReplica, NAME, settings, most, cluster, cluster)
    return ingress.bind(settings, steps, engines)


def _models(settings: ServeSettings) -> list[Model]:
    """The engines that need their own process; the ingress runs the others, which are clients."""
    models = engines_of(list(settings.pipelines.values()))
    return [model for model in models if model.worker() is not None]


def _engine(model: Model, number: int, settings: ServeSettings, cluster: Cluster) -> Any:
    worker = model.worker()
    assert worker is not None
    least = model.replicas if cluster.min_engine_replicas is None else cluster.min_engine_replicas
    most = max(model.replicas, least, cluster.max_engine_replicas)
    options = {
        "name": f"engine-{number}" if number else "engine",
        "autoscaling_config": _scaling(
            cluster, least, most, _target_calls(model, most, settings, cluster), model.replicas
        ),
        "ray_actor_options": {"num_cpus": worker.cpus, "num_gpus": worker.gpus},
        "max_ongoing_requests": model.concurrency,
        "max_queued_requests": model.concurrency * most,
        **_care(settings),
    }
    return serve.deployment(**options)(ModelReplica).bind(model)


def _target_calls(model: Model, most: int, settings: ServeSettings, cluster: Cluster) -> float:
    """Calls in hand per replica above which one more starts.

    A model answers many calls at once, so its places are to be used; but if the server cannot make
    as many calls as there are places, no more than its share of them can be waited for.
    """
    if cluster.engine_target_calls:
        return cluster.engine_target_calls
    calls = settings.limits.calls * max(cluster.min_replicas, cluster.max_replicas)
    return max(1.0, 0.8 * min(model.concurrency, calls / most))


def _deployment(
    cls: Any, name: str, settings: ServeSettings, most: int, needs: Any, cluster: Cluster
) -> Any:
    options: dict[str, Any] = {
        "name": name,
        "ray_actor_options": {
            "num_cpus": needs.cpus,
            "num_gpus": needs.gpus,
            "resources": dict(needs.resources),
        },
        "autoscaling_config": _scaling(
            cluster, needs.min_replicas, needs.max_replicas, needs.target_requests
        ),
        "max_ongoing_requests": most,
        "max_queued_requests": most,
        **_care(settings),
    }
    return serve.deployment(**options)(cls)


def _scaling(
    cluster: Cluster, least: int, most: int, target: float, first: int = 1
) -> AutoscalingConfig:
    """How the number of replicas of a deployment follows its load."""
    with warnings.catch_warnings():  # Ray 2.60 takes the interval of reports only so
        warnings.simplefilter("ignore", DeprecationWarning)
        return AutoscalingConfig(
            min_replicas=least,
            initial_replicas=max(first, least),  # at least one: so a start shows that it opens
            max_replicas=max(1, least, most),
            target_ongoing_requests=target,
            upscale_delay_s=cluster.upscale_delay_s,
            downscale_delay_s=cluster.downscale_delay_s,
            look_back_period_s=cluster.look_back_s,
            metrics_interval_s=cluster.report_s,
        )


def _care(settings: ServeSettings) -> dict[str, Any]:
    """The options of a deployment's health check and shutdown."""
    return {
        "graceful_shutdown_wait_loop_s": 0.5,
        "graceful_shutdown_timeout_s": settings.limits.drain_s + 5.0,
        "health_check_period_s": 5.0,
        "health_check_timeout_s": 30.0,
    }


def prepare(limits: Limits | None = None) -> None:
    """Set environment variables for the processes of a Ray that starts after this."""
    if limits:
        os.environ[retry_middleware.BODIES] = retry_middleware.told(limits)
    # Ray runs its workers at niceness 15, so a build on the same machine would delay a question
    # for seconds.
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault(retry_middleware.CALLBACK, retry_middleware.IMPORT_PATH)
    # By default a proxy asks the replicas of its own node and zone while they take any request, and
    # those that a load starts elsewhere stay idle.
    for near in ("NODE", "AZ"):
        os.environ.setdefault(f"RAY_SERVE_PROXY_PREFER_LOCAL_{near}_ROUTING", "0")


def _check_placed(settings: ServeSettings, cluster: Cluster) -> None:
    """Raise ValueError for custom resources with a local Ray, where replicas would never start."""
    if cluster.address != "local":
        return
    asked = {f"deployments.{name}": each.resources for name, each in settings.apart.items()}
    for key, resources in {"ray": cluster.resources, **asked}.items():
        if resources:
            raise ValueError(f"{key}.resources: only the nodes of a cluster have them")


@contextmanager
def served(settings: ServeSettings, cluster: Cluster) -> Iterator[str]:
    """Serve until the block ends, and yield the server's URL; drain and stop on leaving.

    Raises RuntimeError if the server does not start.
    """
    from srrag.runner.ray.data import RayDataRunner  # Ray Data, which no replica needs

    address = RayDataRunner(
        address=cluster.address,
        num_cpus=cluster.num_cpus,
        object_store_mb=cluster.object_store_mb,
    )
    prepare(settings.limits)
    logging.getLogger(SERVE_LOGGER_NAME).setLevel(logging.WARNING)
    _check_placed(settings, cluster)
    if cluster.address == "local":  # on a cluster, proxies for this server may listen already
        check_port(settings.host, settings.port)
    started: bool | None = None
    ending = ExitStack()
    try:
        with ExitStack() as before:
            if cluster.address == "local":
                before.enter_context(says_starting(settings.host, settings.port))
            started = address.connect()
            _start(settings, cluster)
        name = f"[{settings.host}]" if ":" in settings.host else settings.host
        try:
            yield f"http://{name}:{settings.port}"
        except KeyboardInterrupt:  # also SIGTERM, as Kubernetes stops a server
            _drain(settings, cluster, ending)
            raise
        _drain(settings, cluster, ending)
    finally:
        with ending:
            if started is not None and (
                not started or cluster.address != "local"
            ):  # a cluster would keep proxies and port
                serve.shutdown()  # type: ignore[no-untyped-call]
            if started:
                ray.shutdown()


def _drain(settings: ServeSettings, cluster: Cluster, ending: ExitStack) -> None:
    """Answer what is in hand; who connects from now until the end is told that the server stops."""
    if cluster.address == "local":
        ending.enter_context(says_stopping(settings.host, settings.port))
    serve.delete(NAME)  # serve.shutdown would end the proxies at once


def _start(settings: ServeSettings, cluster: Cluster) -> None:
    """Deploy the server and wait until it is up; raises RuntimeError that says why it is not."""
    serve.start(http_options=HTTPOptions(host=settings.host, port=settings.port))
    target = serve.RunTarget(application(settings, cluster), name=NAME, route_prefix="/")
    serve.run_many([target], wait_for_applications_running=False)
    try:
        wait_until_up(cluster.start_s)
    except RuntimeError as error:
        # An engine of its own is not loaded a second time only to learn what is wrong.
        reason = "" if _models(settings) else opening_fault(settings)
        raise RuntimeError(reason or str(error)) from error
