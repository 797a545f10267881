"""The settings of a server, fixed at its start; they travel to every replica by pickle."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import itertools
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from srrag.core.pipeline import Pipeline
from srrag.core.step import LLMStep, Place, Step, within
from srrag.retrieve.search import SearchDense
from srrag.runner.engines import engines_of

ROLES = ("reader", "runs", "admin")
"""What a key may do: ask and browse; read stored runs too; reload the build too."""

_LINE = re.compile(r"(?P<name>[\w.-]{1,64})\s+(?P<hash>[0-9a-f]{64})(?:\s+(?P<role>[a-z]+))?")
_MAX_BUCKETS = 10_000


@dataclass(frozen=True)
class ApiKey:
    """The sha256 of a key, in hex, and its role."""

    hash: str
    role: str = ROLES[0]

    def may(self, role: str) -> bool:
        """Whether this key may do what a role may."""
        return ROLES.index(self.role) >= ROLES.index(role)


def read_keys(path: Path) -> dict[str, ApiKey]:
    """Read lines `name sha256-of-the-key [role]`; raises ValueError that names a malformed line."""
    keys: dict[str, ApiKey] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        match = _LINE.fullmatch(text)
        if match is None or match["name"] in keys:
            raise ValueError(f"{path}: line {number} is not a new name and a sha256 in hex")
        role = match["role"] or ROLES[0]
        if role not in ROLES:
            raise ValueError(f"{path}: line {number}: {role!r} is none of {', '.join(ROLES)}")
        keys[match["name"]] = ApiKey(match["hash"], role)
    if not keys:
        raise ValueError(f"{path} holds no key")
    return keys


def owner(keys: Mapping[str, ApiKey], key: str) -> str | None:
    """The name of a key's owner, or None. Compares with every key, each time in constant time."""
    given = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
    found = None
    for name, known in keys.items():
        if hmac.compare_digest(given, known.hash):
            found = name
    return found


@dataclass
class Rate:
    """A token bucket per caller: `burst` at once, then `per_minute`; 0 per minute is unlimited.

    Each of several replicas grants its share of both, and at least one request at once. What
    `charge` takes beyond what is there is paid off before the next request.
    """

    per_minute: float
    burst: int
    replicas: int = 1
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)

    def charge(self, caller: str, tokens: float) -> None:
        """Take more tokens of a caller whose request asks for more work than one token pays."""
        if caller in self._buckets:
            left, then = self._buckets[caller]
            self._buckets[caller] = (left - tokens, then)

    def wait_s(self, caller: str, now: float | None = None) -> float:
        """Take a token of a caller: returns 0, or the seconds until the next one is available."""
        if not self.per_minute:
            return 0.0
        now = time.monotonic() if now is None else now
        most, a_second = max(1.0, self.burst / self.replicas), self.per_minute / 60 / self.replicas
        left, then = self._buckets.pop(caller, (most, now))
        left = min(most, left + (now - then) * a_second)
        wait = 0.0 if left >= 1 else (1 - left) / a_second
        self._buckets[caller] = (left - (0 if wait else 1), now)
        if len(self._buckets) > _MAX_BUCKETS:
            del self._buckets[next(iter(self._buckets))]  # the least recently used
        return wait


_POSITIVE = (
    "max_rows", "max_waiting", "calls", "timeout_s", "max_body_bytes", "body_s", "slow_bodies",
    "per_caller", "burst",
)  # fmt: skip

_PORTS = 2**16


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The load that one replica accepts; it refuses more at once."""

    max_rows: int = 16
    """Questions answered as one batch; pipelines with a model always take one."""
    max_waiting: int = 64
    """Questions that may wait; the next is refused with 503."""
    calls: int = 8
    """Questions answered concurrently if a model answers; without one, batches run one by one."""
    timeout_s: float = 60.0
    """Time limit of a request, which the header X-Timeout-S can shorten."""
    max_body_bytes: int = 256 * 1024
    body_s: float = 10.0
    """Time for the body of a request to arrive."""
    slow_bodies: int = 64
    """Bodies that may take longer than a second to arrive; one more cuts the oldest off."""
    per_caller: int = 128
    """Requests of one key (or address) in progress; the next is refused with 429."""
    max_documents: int = 256
    """Documents of one request to rerank."""
    drain_s: float = 30.0
    """Time that running requests have to finish when the server stops."""
    stuck_s: float = 300.0
    """Run time of a batch beyond which the health check fails."""
    watch_s: float = 1.0
    """Pause between checks of the build's pointer; 0 turns them off."""
    per_minute: float = 0.0
    """Requests per minute of one key (or address) over all replicas; 0 is unlimited."""
    burst: int = 30
    """Requests of one key at once, within `per_minute`."""

    def __post_init__(self) -> None:
        """Raise ValueError for a limit that is not positive."""
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                raise ValueError(f"limits.{name} is {getattr(self, name)}: it has to be positive")


_LEAST = {"shards": 1, "max_tables": 1, "threads": 1, "min_replicas": 0, "max_replicas": 1,
          "cpus": 0, "gpus": 0}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A separate deployment for some steps, on another device or with other replicas."""

    steps: tuple[str, ...]
    """Class names such as RerankMaxSim; moves these steps of all pipelines."""
    device: str = "cpu"
    threads: int = 1
    shards: int = 1
    """Shards of SearchDense's index, each with its own replicas; results are merged."""
    max_tables: int = 8
    """Tables of the ingress that are processed as one batch."""
    cpus: float = 1.0
    """Logical CPUs of a replica."""
    gpus: float = 0.0
    min_replicas: int = 1
    """Replicas that always stand; with 0 the last one goes too, and the next call starts one."""
    max_replicas: int = 1
    target_requests: float = 1.0
    """Tables in hand per replica, on average, above which one more replica starts.

    A replica of the ingress has at most `limits.calls` tables in hand, and without a model one.
    """
    resources: Mapping[str, float] = field(default_factory=dict)
    """Amount of each custom Ray resource that a replica takes; restricts it to nodes with them."""

    def __post_init__(self) -> None:
        """Raise ValueError for a count too small, or shards of a step other than SearchDense."""
        object.__setattr__(self, "steps", tuple(self.steps))
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}: at least {least} is needed")
        if self.target_requests <= 0:
            raise ValueError(f"target_requests is {self.target_requests}: it has to be positive")
        if self.shards > 1 and self.steps != (SearchDense.__name__,):
            raise ValueError(f"shards: only steps=[{SearchDense.__name__}] can share its windows")


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """The root, the pipelines by name (the first is the default), the API keys and the limits."""

    root: Path
    pipelines: Mapping[str, Pipeline]
    build: str = "default"
    at: Place = field(default_factory=Place)
    host: str = "127.0.0.1"
    port: int = 8080
    keys: Mapping[str, ApiKey] = field(default_factory=dict)
    """API keys by owner; without keys, the server accepts every local caller."""
    limits: Limits = field(default_factory=Limits)
    log: Path | None = None
    """File for one JSON line per request; None for stderr, which Ray keeps in its log folder."""
    log_questions: bool = False
    apart: Mapping[str, Deployment] = field(default_factory=dict)
    """Separate deployments by name; all other steps run in the ingress."""
    traces: str | None = None
    """Address of an OpenTelemetry collector (OTLP over HTTP) that gets one trace per request."""
    runs: tuple[Path, ...] = ()
    """Folders of stored runs to show in addition to `root/jobs`."""

    def __post_init__(self) -> None:
        """Raise ValueError for settings that cannot work, or a public address without API keys."""
        if not self.pipelines:
            raise ValueError("pipeline: there is none to serve")
        for name, pipeline in self.pipelines.items():
            if not pipeline.answer:
                raise ValueError(f"pipeline: {name} has no answer steps")
        if type(self.port) is not int or not 0 < self.port < _PORTS:
            raise ValueError(f"port={self.port}: a whole number from 1 to {_PORTS - 1}")
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
        """The name of the pipeline for requests that name none."""
        return next(iter(self.pipelines))

    @property
    def run_folders(self) -> dict[str, Path]:
        """The folders to search for stored runs, by the label that users see."""
        found = {"jobs": self.root / "jobs"}
        for path in self.runs:
            labels = (f"{path.name} ({n})" if n > 1 else path.name for n in itertools.count(1))
            found[next(label for label in labels if label and label not in found)] = path
        return found

    def steps_apart(self, name: str) -> list[Step]:
        """The distinct steps of a deployment, in the order of the pipelines."""
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
        """Whether a pipeline calls an engine other than the rules."""
        return bool(engines_of([self.pipelines[pipeline]]))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens at this address."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)  # IPv4 address on a dual-stack socket
    return (mapped or address).is_loopback
