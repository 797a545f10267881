"""Replicas that come and go under a load that steps from one client to many and back.

    python -m perf.autoscaling ROOT --out docs/pictures/autoscaling

Three deployments, each with one to `--most` replicas: the ingress, a ranking step, and an engine.
The ranking step is the pipeline's own and then waits, as for a device of its own; the engine is a
session of the tests that waits and cites. So it is replicas, not the two cores, that bound the
load. With `--model FOLDER` the engine is vLLM on the CPU with that model. Every client asks one
question after the other, each text only once, and waits as told where it is refused; an answer of
the model that its step rejects (422) is counted as `rejected`. Each second is a row of OUT.csv;
OUT.png draws them. Of every replica Ray's own log tells what its first request took. The last line
on stdout is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import itertools
import json
import os
import re
import shlex
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import ray
from ray import serve

from perf.autoscaled_nodes import autoscaled
from perf.autoscaling_plot import draw
from srrag.config.compose import configure
from srrag.core.spec import place_field
from srrag.engine.base import Model
from srrag.engine.vllm.engine import VllmEngine
from srrag.lab.measure.references import read_gold, resource_path
from srrag.serve.configured import settings_of
from srrag.serve.ray.deployments import Cluster, prepare, served
from srrag.serve.ray.starting import NAME
from srrag.serve.settings import Deployment, ServeSettings
from tests.unit.serve.serving import CitingModel, CitingSession, citing
from tests.unit.serve.serving import paced as slowed

PORT = 8158
SAMPLE = "pkg://srrag/sample/questions.jsonl"
DEPLOYMENTS = (NAME, "ranker", "engine")
NODES = "nodes"
_TIMEOUT_S = 120.0
_IDLE_S = 180.0
"""Seconds in which idle replicas have to go."""


@dataclass(frozen=True, kw_only=True)
class PacedModel(CitingModel):
    """An engine of one process or more, `load_s` seconds to start and `pause_s` a call."""

    load_s: float = place_field(0.0)

    @property
    def replicas(self) -> int:
        """One stands always."""
        return 1

    async def open(self) -> CitingSession:
        """Start a session."""
        await asyncio.sleep(self.load_s)
        return CitingSession(self.pause_s)


@dataclass(frozen=True)
class Load:
    """Numbers of clients, each for some seconds."""

    phases: tuple[tuple[int, float], ...]

    def clients(self, second: float) -> int:
        """Clients at a time after the start; 0 after the end."""
        for number, seconds in self.phases:
            if second < seconds:
                return number
            second -= seconds
        return 0


@dataclass
class Record:
    """What was seen: requests as (ended, seconds, outcome), replicas by state at each moment.

    Nodes of the cluster stand there as a deployment of that name.
    """

    began: float = field(default_factory=time.monotonic)
    requests: list[tuple[float, float, str]] = field(default_factory=list)
    replicas: list[tuple[float, dict[str, dict[str, int]]]] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    """Answers by the version of the build that they rest on."""

    def add(self, outcome: str, began: float) -> None:
        """Count a request."""
        now = time.monotonic()
        self.requests.append((now - self.began, now - began, outcome))


async def drive(url: str, clients: Callable[[float], int], most: int, record: Record) -> None:
    """Ask by as many clients as there are at a second, until there are none and all are answered.

    There are at most `most`.
    """
    texts = [row["text"] for row in read_gold(resource_path(SAMPLE))]
    numbered = (f"{text} ({number})" for number, text in enumerate(itertools.cycle(texts)))
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=_TIMEOUT_S)
    async with aiohttp.ClientSession(url, connector=connector, timeout=timeout) as session:

        async def client(number: int) -> None:
            while present := clients(time.monotonic() - record.began):
                waits = number >= present
                rest = 0.1 if waits else await ask(session, next(numbered), record)
                await asyncio.sleep(rest)

        await asyncio.gather(*map(client, range(most)))


async def ask(session: aiohttp.ClientSession, text: str, record: Record) -> float:
    """Ask one question; returns the seconds to wait until the next."""
    began = time.monotonic()
    try:
        async with session.post("/v1/answers", json={"question": text}) as response:
            body = await response.read()
            if response.status == 503 and "retry-after" in response.headers:
                record.add("refused", began)
                return float(response.headers["retry-after"])
            if response.status == 200 and (told := json.loads(body))["question"] == text:
                record.versions[told["version"]] += 1
                record.add("answered", began)
                return 0.0
            record.reasons[f"{response.status}: {body[:200]!r}"] += 1
            record.add("rejected" if response.status == 422 else "lost", began)
            return 0.1
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError) as error:
        record.reasons[repr(error)[:200]] += 1
        record.add("lost", began)
        return 0.1


def states() -> dict[str, dict[str, int]]:
    """Replicas of each deployment by their state, as Ray's controller tells."""
    deployments = serve.status().applications[NAME].deployments
    found = {name: dict(each.replica_states) for name, each in deployments.items()}
    return {**found, NODES: {"RUNNING": sum(node["Alive"] for node in ray.nodes())}}


async def wake(url: str) -> float:
    """Wait until no deployment has a replica; seconds until a question is answered then."""
    until, record = time.monotonic() + _IDLE_S, Record()
    while any(sum(each.values()) for name, each in states().items() if name != NODES):
        if time.monotonic() > until:
            raise RuntimeError(f"still there after {_IDLE_S:g} s: {states()}")
        await asyncio.sleep(0.5)
    async with aiohttp.ClientSession(url) as session:
        await ask(session, "Does exercise reduce pain after a fracture?", record)
    ((_, seconds, outcome),) = record.requests
    if outcome != "answered":
        raise RuntimeError(f"{outcome}: {record.reasons}")
    return round(seconds, 1)


@contextmanager
def every(seconds: float, look: Callable[[], None]) -> Iterator[None]:
    """Call `look` every `seconds` in a thread, until the block ends."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(seconds):
            look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def watching(record: Record) -> AbstractContextManager[None]:
    """Note the replicas each second until the block ends."""

    def look() -> None:
        record.replicas.append((time.monotonic() - record.began, states()))

    return every(1.0, look)


def engine_of(given: argparse.Namespace) -> Model:
    """A real model on the CPU, or an engine that waits."""
    calls = given.engine_calls
    if given.model is None:
        return PacedModel(pause_s=given.engine_s, load_s=given.load_s, concurrency=calls)
    return VllmEngine(
        model=str(given.model), device="cpu", dtype="float32", kv_cache_gb=0.5,
        max_num_seqs=calls, concurrency=calls, enforce_eager=True,
    )  # fmt: skip


def paced(root: Path, folder: str, given: argparse.Namespace) -> ServeSettings:
    """Settings of a server whose ranking step and engine stand apart and take their time."""
    overrides = [f"root={root}", f"port={PORT}", f"completions={folder}/completions",
                 f"log={folder}/log.jsonl", *given.overrides]  # fmt: skip
    command = shlex.join(["srrag", "serve", *overrides])
    told = settings_of({**configure("serve", overrides), "command": command})
    pipeline = slowed(citing(told, engine_of(given)), given.ranking_s)
    ranker = Deployment(
        steps=("PacedRanking",), cpus=0.1, max_tables=1, max_replicas=given.most,
        min_replicas=given.least,
        **({"target_requests": given.ranking_target} if given.ranking_target else {}),
    )  # fmt: skip
    return replace(told, pipelines={told.default: pipeline}, apart={"ranker": ranker})


_LINE = re.compile(
    r"^\S+ \S+ \S+ (?P<name>\S+) (?P<replica>\S+) .*-- (?P<what>.+) (?P<ms>[\d.]+)ms$"
)
_ASKED = ("POST", "CALL complete", "CALL run")


def first_requests(folder: Path) -> list[dict[str, Any]]:
    """Of each replica: milliseconds of its first request, and the median of the next hundred."""
    found = []
    for path in sorted(folder.glob("replica_*.log")):
        calls: list[float] = []
        name = replica = ""
        for line in path.read_text("utf-8", "replace").splitlines():
            told = _LINE.match(line)
            if told and told["what"].startswith(_ASKED):
                name, replica = told["name"], told["replica"]
                calls.append(float(told["ms"]))
        if len(calls) > 1:
            found.append({
                "deployment": name, "replica": replica, "requests": len(calls),
                "first_ms": calls[0], "median_ms": statistics.median(calls[1:101]),
            })  # fmt: skip
    return found


def seconds_of(record: Record, load: Load) -> list[dict[str, Any]]:
    """A row for each second."""
    last = max([at for at, _ in record.replicas] + [at for at, _, _ in record.requests])
    rows = []
    for second in range(int(last) + 1):
        here = [(s, how) for at, s, how in record.requests if int(at) == second]
        times = sorted(s for s, how in here if how == "answered")
        row: dict[str, Any] = {"second": second, "clients": load.clients(second)}
        counts = Counter(how for _, how in here)
        row.update({how: counts[how] for how in ("answered", "rejected", "refused", "lost")})
        row["p50_s"] = round(statistics.median(times), 3) if times else ""
        row["p95_s"] = round(times[int(0.95 * (len(times) - 1))], 3) if times else ""
        seen = [each for at, each in record.replicas if int(at) <= second]
        for name in (*DEPLOYMENTS, NODES):
            now = seen[-1].get(name, {}) if seen else {}
            for state in ("RUNNING", "STARTING", "STOPPING"):
                row[f"{name}_{state.lower()}"] = now.get(state, 0)
        rows.append(row)
    return rows


def figures(rows: Sequence[Mapping[str, Any]], record: Record, load: Load) -> dict[str, Any]:
    """Counts, times of answers in each phase and at its end, when replicas came and went."""
    found: dict[str, Any] = {"counts": dict(Counter(how for _, _, how in record.requests))}
    begin, phases = 0.0, []
    for number, seconds in load.phases:
        end = begin + seconds
        late = end - seconds / 3
        phases.append({
            "clients": number, "from_s": begin,
            **{f"first_20_{k}": v for k, v in quantiles(record, begin, begin + 20).items()},
            **{f"last_third_{k}": v for k, v in quantiles(record, late, end).items()},
        })  # fmt: skip
        begin = end
    found["phases"] = phases
    up, down = load.phases[0][1], load.phases[0][1] + load.phases[1][1]
    for name in (*DEPLOYMENTS, NODES):
        running = [(row["second"], row[f"{name}_running"]) for row in rows]
        most = max(n for _, n in running)
        least = min(1, most)
        came = next((s - up for s, n in running if n == most and s >= up), None)
        gone = next((s - down for s, n in running if n <= least and s >= down), None)
        second = next((s - up for s, n in running if n > least and s >= up), None)
        found[name] = {"most": most, "second_after_s": second, "all_after_s": came,
                       "gone_after_s": gone}  # fmt: skip
    if record.reasons:
        found["reasons"] = dict(record.reasons.most_common(8))
    return found


def quantiles(record: Record, begin: float, end: float) -> dict[str, float]:
    """Of the answers that ended in a span: how many a second, p50 and p95 of their seconds."""
    times = sorted(s for at, s, how in record.requests if how == "answered" and begin <= at < end)
    if not times:
        return {}
    p95 = times[int(0.95 * (len(times) - 1))]
    return {
        "a_second": round(len(times) / (end - begin), 1),
        "p50_s": round(statistics.median(times), 3),
        "p95_s": round(p95, 3),
    }


def main() -> None:
    """Run one load against a server of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("--out", type=Path, required=True, metavar="PATH", help="without a suffix")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--least", type=int, default=1, help="replicas; with 0, one is woken")
    parser.add_argument("--nodes", type=int, default=0, help="that may come beside the first")
    parser.add_argument("--most", type=int, default=3, help="replicas of each deployment")
    parser.add_argument("--seconds", default="30,150,150", help="of 1, all and 1 clients")
    parser.add_argument("--ranking-s", type=float, default=0.1)
    parser.add_argument("--ranking-target", type=float, default=0.0, help="0: the default")
    parser.add_argument("--engine-s", type=float, default=0.5)
    parser.add_argument("--engine-calls", type=int, default=4)
    parser.add_argument("--load-s", type=float, default=4.0)
    parser.add_argument("--model", type=Path, help="a folder: vLLM instead of --engine-s, --load-s")
    parser.add_argument("overrides", nargs="*", help="of `srrag serve`, such as ray.cpus=0.5")
    given = parser.parse_intermixed_args()
    one, many, after = map(float, given.seconds.split(","))
    load = Load(((1, one), (given.clients, many), (1, after)))
    config = configure("serve", [f"root={given.root}", *given.overrides])["ray"]
    more = {
        "num_cpus": 16, "max_replicas": given.most, "max_engine_replicas": given.most,
        "min_replicas": given.least, "min_engine_replicas": given.least, "start_s": 600.0,
    }  # fmt: skip
    with ExitStack() as until:
        if given.nodes:  # the head has room for one server, and each other node too
            prepare()
            more["address"] = until.enter_context(autoscaled(2, 1, given.nodes))
        # A new folder: no answer comes from a former run's log.
        folder = until.enter_context(tempfile.TemporaryDirectory())
        told, cluster = paced(given.root, folder, given), Cluster(**{**config, **more})
        url = until.enter_context(served(told, cluster))
        record = Record()
        with watching(record):
            asyncio.run(drive(url, load.clients, given.clients, record))
        woken = {} if given.least else {"first_answer_of_none_s": asyncio.run(wake(url))}
        session = ray._private.worker._global_node.get_logs_dir_path()  # type: ignore[attr-defined]
        firsts = first_requests(Path(session) / "serve")
        rows = seconds_of(record, load)
        with given.out.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        names = (*DEPLOYMENTS, NODES) if given.nodes else DEPLOYMENTS
        draw(rows, names, given.out.with_suffix(".png"))
        found = figures(rows, record, load)
        print(
            json.dumps({**found, **woken, "replicas": firsts, "load_average": os.getloadavg()[0]})
        )
    sys.exit(0)


if __name__ == "__main__":
    main()
