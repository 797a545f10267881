"""What a server is told once, at its start; it travels by pickle to every replica."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from srrag.pipeline import Pipeline
from srrag.retrieve.search_dense import SearchDense
from srrag.runner.engines import engines_of
from srrag.step import LLMStep, Place, Step, within


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one replica takes on; what is beyond is refused at once."""

    max_rows: int = 16
    """Questions that are answered as one table; of pipelines with a model it is one."""
    max_waiting: int = 64
    """Questions that may wait; the next is refused with 503."""
    calls: int = 8
    """Questions in hand together where a model answers; without one it is one table at a time."""
    timeout_s: float = 60.0
    """What a request is given that does not ask for less (header X-Timeout-S)."""
    max_body_bytes: int = 256 * 1024
    max_documents: int = 256
    """Documents of one request to rerank."""
    drain_s: float = 30.0
    """What requests in hand are given when the server stops."""
    stuck_s: float = 300.0
    """A table in hand for longer makes the health check fail."""
    watch_s: float = 1.0
    """How often the build's pointer is looked at; 0 never."""
    per_minute: float = 0.0
    """Requests of one key (or address) a minute, which replicas share; 0 for any number."""
    burst: int = 30
    """Requests at once, of `per_minute`."""

    def __post_init__(self) -> None:
        """Raise ValueError for a limit under which nothing can be answered."""
        for name in ("max_rows", "max_waiting", "calls", "timeout_s", "max_body_bytes", "burst"):
            if getattr(self, name) <= 0:
                raise ValueError(f"limits.{name} is {getattr(self, name)}: it has to be positive")


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A deployment of its own for some steps: on another device, or with other replicas."""

    steps: tuple[str, ...]
    """Names of their classes, such as RerankMaxSim; those of all pipelines."""
    device: str = "cpu"
    threads: int = 1
    shards: int = 1
    """Parts of the index of SearchDense, each with replicas of its own; results are merged."""
    max_tables: int = 8
    """Batches of the ingress that are worked on together."""
    cpus: float = 1.0
    """Logical CPUs of a replica."""
    gpus: float = 0.0
    min_replicas: int = 1
    max_replicas: int = 1
    target_requests: float = 4.0
    """Batches in hand per replica above which one more is started."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """Ray's own resources by name, of which a replica takes so much: only nodes that have them."""

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot work."""
        object.__setattr__(self, "steps", tuple(self.steps))
        for name in ("shards", "max_tables", "min_replicas", "threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: at least 1 is needed")
        if self.shards > 1 and self.steps != (SearchDense.__name__,):
            raise ValueError(f"shards: only steps=[{SearchDense.__name__}] can share its windows")


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """A root, the pipelines by name (the first is the default), who may ask, and how much."""

    root: Path
    pipelines: Mapping[str, Pipeline]
    build: str = "default"
    at: Place = field(default_factory=Place)
    host: str = "127.0.0.1"
    port: int = 8080
    keys: Mapping[str, str] = field(default_factory=dict)
    """Name → sha256 of the API key; without any, every caller on this machine is let in."""
    limits: Limits = field(default_factory=Limits)
    log: Path | None = None
    """File that gets a JSON line a request; None for stderr, which Ray keeps in its own folder."""
    log_questions: bool = False
    apart: Mapping[str, Deployment] = field(default_factory=dict)
    """Deployments beside that of the ingress, by name; every other step works in the ingress."""
    traces: str | None = None
    """Address of an OpenTelemetry collector (OTLP over HTTP) that is sent a trace a request."""
    runs: tuple[Path, ...] = ()
    """Folders of stored runs to show beside those below `root/jobs`."""

    def __post_init__(self) -> None:
        """Raise ValueError for a start that would be open to the network without a key."""
        if not self.pipelines:
            raise ValueError("pipeline: there is none to serve")
        for name, pipeline in self.pipelines.items():
            if not pipeline.answer:
                raise ValueError(f"pipeline: {name} has no answer steps")
        if not self.keys and not is_loopback(self.host):
            raise ValueError(f"host={self.host} is open to others: api_keys=FILE is needed")
        taken: set[str] = set()
        for name, apart in self.apart.items():
            if twice := taken & set(apart.steps):
                raise ValueError(f"deployments.{name}: {min(twice)} stands in another one too")
            taken |= set(apart.steps)
            self._check_apart(name, apart)

    @property
    def default(self) -> str:
        """The pipeline of requests that name none."""
        return next(iter(self.pipelines))

    @property
    def run_folders(self) -> dict[str, Path]:
        """Where stored runs are looked for, by the name that their readers see."""
        others = {f"{path.name or n}": path for n, path in enumerate(self.runs)}
        return {**others, "jobs": self.root / "jobs"}

    def steps_apart(self, name: str) -> list[Step]:
        """The steps of a deployment, each once, in the order in which the pipelines hold them."""
        found: list[Step] = []
        for step in within(self.pipelines):
            if type(step).__name__ in self.apart[name].steps and step not in found:
                found.append(step)
        return found

    def _check_apart(self, name: str, apart: Deployment) -> None:
        steps = self.steps_apart(name)
        for missing in set(apart.steps) - {type(step).__name__ for step in steps}:
            raise ValueError(f"deployments.{name}: no pipeline here has a step {missing}")
        for step in steps:
            if any(isinstance(each, LLMStep) for each in within(step)):
                raise ValueError(
                    f"deployments.{name}: {type(step).__name__} asks an engine, which is what "
                    f"stands apart already"
                )

    def asks_model(self, pipeline: str) -> bool:
        """Whether a pipeline asks anybody but the rules."""
        return bool(engines_of([self.pipelines[pipeline]]))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens at this address."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)  # as a socket of both families names it
    return (mapped or address).is_loopback
