"""Serving under more load than it can take, and while replicas die.

    python -m perf.serve_load ROOT --minutes 10
    python -m perf.serve_load ROOT --minutes 0.5 --clients 24 --replicas 2 --kill srrag

Clients begin within a few seconds and ask one question after the other; every eighth listens to a
stream. One that is refused waits exactly as many seconds as `Retry-After` says (with `--patience 1`
at most one, as clients do that have their own mind), then asks the same again. An answer is lost if
a request ends without a whole answer and without a fault that says so; a stream that ends before
`final` or `error` is counted apart, as broken. With `--kill`, a replica of that deployment (`srrag`
is the ingress) is killed in the middle, by SIGKILL. The last line on stdout is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import os
import random
import shlex
import signal
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from srrag.config.compose import configure
from srrag.lab.measure.references import read_gold, resource_path
from srrag.serve.configured import settings_of
from srrag.serve.ray.deployments import Cluster, served

PORT = 8156
SAMPLE = "pkg://srrag/sample/questions.jsonl"
STREAMING = 8
"""One client in so many listens to streams."""

REFUSED = (429, 503)
_TIMEOUT_S = 120.0
_SAMPLE_S = 5.0
_RAMP_S = 5.0
"""Clients begin within so long: all at once they would be a crowd of the benchmark's own making."""


@dataclass
class Seen:
    """The requests as (began, seconds) by their outcome."""

    outcomes: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    memory: list[tuple[float, int]] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    told: Counter[int] = field(default_factory=Counter)
    """How many were told to come back in so many seconds."""
    killed_at: float = 0.0

    def add(self, outcome: str, began: float) -> None:
        """Count one."""
        self.outcomes.setdefault(outcome, []).append((began, time.monotonic() - began))

    def counts(self) -> dict[str, int]:
        """How many of each."""
        return {name: len(each) for name, each in sorted(self.outcomes.items())}


async def load(
    url: str, clients: int, seconds: float, kill: str = "", patience_s: float = math.inf
) -> Seen:
    """Run a number of clients for some seconds; none waits longer than its patience."""
    texts = [row["text"] for row in read_gold(resource_path(SAMPLE))]
    seen, until = Seen(), time.monotonic() + seconds
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    async with aiohttp.ClientSession(url, connector=connector, timeout=timeout) as session:

        async def client(number: int) -> None:
            asked = itertools.cycle(texts[number % len(texts) :] + texts[: number % len(texts)])
            one = streamed if number % STREAMING == STREAMING - 1 else answered
            wait, text = 0.0, ""
            await asyncio.sleep(random.uniform(0, _RAMP_S))
            while time.monotonic() < until:
                text = text if wait else next(asked)
                wait = await one(session, text, seen)
                await asyncio.sleep(min(wait, patience_s, max(0.0, until - time.monotonic())))

        watching = asyncio.create_task(watch(seen))
        killing = asyncio.create_task(killed(seen, kill, seconds / 2)) if kill else None
        await asyncio.gather(*map(client, range(clients)))
        watching.cancel()
        if killing is not None:
            await killing
    return seen


async def answered(session: aiohttp.ClientSession, text: str, seen: Seen) -> float:
    """Ask for an answer; returns how long to wait before the next."""
    began = time.monotonic()
    try:
        async with session.post("/v1/answers", json={"question": text}) as response:
            if response.status in REFUSED:
                return await refused(response, began, seen)
            body = await response.read()
            whole = response.status == 200 and json.loads(body)["question"] == text
            told = response.status == 504
            if not whole and not told:
                seen.reasons[f"{response.status}: {body[:200]!r}"] += 1
            seen.add("answered" if whole else "late" if told else "lost", began)
            return 0.0
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError) as error:
        seen.reasons[repr(error)[:200]] += 1
        seen.add("lost", began)
        return 0.1


async def streamed(session: aiohttp.ClientSession, text: str, seen: Seen) -> float:
    """Ask for a stream; as `answered`."""
    began = time.monotonic()
    last = ""
    try:
        async with session.post("/v1/answers/stream", json={"question": text}) as response:
            if response.status in REFUSED:
                return await refused(response, began, seen)
            async for line in response.content:
                if line.startswith(b"event:"):
                    last = line.decode().removeprefix("event: ").strip()
    except (aiohttp.ClientError, TimeoutError) as error:
        seen.reasons[repr(error)[:200]] += 1
    seen.add("streamed" if last in ("final", "error") else "broken stream", began)
    return 0.0


async def refused(response: aiohttp.ClientResponse, began: float, seen: Seen) -> float:
    """Count a refusal; returns how long it says to wait."""
    body = await response.read()
    seen.add("refused", began)
    if "retry-after" not in response.headers:
        seen.reasons[f"no Retry-After: {response.status}: {body[:200]!r}"] += 1
    wait = int(response.headers.get("retry-after", 1))
    seen.told[wait] += 1
    return float(wait)


async def watch(seen: Seen) -> None:
    """Note the replicas' memory now and then."""
    while True:
        seen.memory.append((time.monotonic(), sum(p.memory_info().rss for p in replicas())))
        await asyncio.sleep(_SAMPLE_S)


async def killed(seen: Seen, deployment: str, after_s: float) -> None:
    """Kill one replica of a deployment."""
    await asyncio.sleep(after_s)
    seen.killed_at = time.monotonic()
    os.kill(replicas(deployment)[0].pid, signal.SIGKILL)


def replicas(deployment: str = "srrag") -> list[psutil.Process]:
    """The processes of the replicas of a deployment of a server that this process started."""
    children = psutil.Process().children(recursive=True)
    found = []
    for child in children:
        try:
            if f"ServeReplica:srrag:{deployment}" in " ".join(child.cmdline()):
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def figures(seen: Seen, seconds: float) -> dict[str, Any]:
    """Counts, times of answers and refusals, growth of memory after the first minute."""
    quick = sorted(s for _, s in seen.outcomes.get("refused", ()))
    slow = sorted(s for _, s in seen.outcomes.get("answered", ()))
    found: dict[str, Any] = {"counts": seen.counts(), "seconds": round(seconds, 1)}
    for name, values in (("refused_s", quick), ("answered_s", slow)):
        if values:
            p95 = values[int(0.95 * (len(values) - 1))]
            found[name] = {"p50": round(statistics.median(values), 4), "p95": round(p95, 4)}
    found["answers_a_second"] = round(len(slow) / seconds, 1)
    if seen.told:
        found["told_s"] = dict(sorted(seen.told.items()))
    if seen.memory:
        begin = seen.memory[0][0]
        first = [b for at, b in seen.memory if 60 <= at - begin < 120]
        last = [b for at, b in seen.memory if at >= seen.memory[-1][0] - 60]
        found["memory_mb"] = [round(b / 2**20) for _, b in seen.memory][::12]
        if first and seconds >= 180:
            growth = statistics.median(last) / statistics.median(first) - 1
            found["memory_growth"] = round(growth, 4)
    if seen.killed_at:
        found["after_kill"] = after_kill(seen)
    if seen.reasons:
        found["reasons"] = dict(seen.reasons.most_common(8))
    return found


def after_kill(seen: Seen) -> dict[str, Any]:
    """Return when answers resumed after the kill, and the lost requests: in flight or later."""
    ends = sorted(at + s for at, s in seen.outcomes.get("answered", ()) if at > seen.killed_at)
    lost = [at for at, _ in seen.outcomes.get("lost", ())]
    return {
        "next_answer_s": round(ends[0] - seen.killed_at, 2) if ends else None,
        "lost_in_flight": sum(at <= seen.killed_at for at in lost),
        "lost_later": sum(at > seen.killed_at for at in lost),
    }


def main() -> None:
    """Run one load against a server of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=128)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--kill", default="", metavar="DEPLOYMENT")
    parser.add_argument("--patience", type=float, default=math.inf, metavar="S")
    parser.add_argument("overrides", nargs="*", help="of `srrag serve`, such as pipeline=srrag")
    given = parser.parse_intermixed_args()
    overrides = [f"root={given.root}", f"port={PORT}", *given.overrides]
    command = shlex.join(["srrag", "serve", *overrides])
    told = settings_of({**configure("serve", overrides), "command": command})
    cluster = Cluster(num_cpus=8, min_replicas=given.replicas, max_replicas=given.replicas)
    with served(told, cluster) as url:
        began, before = time.monotonic(), os.getloadavg()[0]
        asked = load(url, given.clients, 60 * given.minutes, given.kill, given.patience)
        seen = asyncio.run(asked)
        found = figures(seen, time.monotonic() - began)
    waits = "as told" if math.isinf(given.patience) else f"at most {given.patience:g} s"
    by = {"clients": given.clients, "wait": waits, "replicas": given.replicas}
    print(json.dumps({**by, "load_average": [before, os.getloadavg()[0]], **found}))
    sys.exit(0)


if __name__ == "__main__":
    main()
