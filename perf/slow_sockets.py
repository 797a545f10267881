"""What readers notice while somebody else opens a thousand sockets and sends half a question.

    python -m perf.slow_sockets ROOT --sockets 1000
    python -m perf.slow_sockets ROOT --unlimited          # without the limits that stop it

Two keys: `clinic` asks a question, rests, and asks again; `other` opens sockets that send the head
of a POST and then a byte of its body each second, and opens each again some time after the server
has ended it. They are another process, so that what the first one measures is not its own wait.
`/healthz` is asked ten times a second. A quiet phase comes first, then the slow sockets, then a
quiet phase again. The last line on stdout is one JSON object, with the share of a core that each
process takes in each phase.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import json
import multiprocessing
import os
import shlex
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp

from perf.serve_floor import PROCESSES, cpu_s
from srrag.config.compose import configure
from srrag.evaluate.references import read_gold, resource_path
from srrag.serve.configured import settings_of
from srrag.serve.ray.deployments import Cluster, served

PORT = 8160
SAMPLE = "pkg://srrag/sample/questions.jsonl"
PHASES = ("quiet", "slow sockets", "after")
UNLIMITED = ("limits.body_s=3600", "limits.slow_bodies=100000", "limits.per_caller=100000")
_REST_S = 0.25
_HEALTH_S = 0.1
_TIMEOUT_S = 30.0


@dataclass
class Seen:
    """Seconds of what was asked in each phase, what failed, and what each process took."""

    phase: str = PHASES[0]
    seconds: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    failed: Counter[str] = field(default_factory=Counter)
    cores: dict[str, dict[str, float]] = field(default_factory=dict)
    """Share of a core by phase and process."""
    sockets: dict[str, Any] = field(default_factory=dict)
    """How the slow sockets ended, and how many were open at most."""


@dataclass
class Sockets:
    """How the slow sockets ended."""

    ended: Counter[str] = field(default_factory=Counter)
    open: int = 0
    most_open: int = 0


async def asking(seen: Seen, what: str, rest_s: float, ask: Callable[[], Any]) -> None:
    """Ask again and again; a request counts in the phase in which it began."""
    while True:
        phase, began = seen.phase, time.monotonic()
        try:
            async with ask() as response:
                await response.read()
                fault = "" if response.status == 200 else str(response.status)
        except (aiohttp.ClientError, TimeoutError) as error:
            fault = type(error).__name__
        seen.seconds[phase, what].append(time.monotonic() - began)
        if fault:
            seen.failed[f"{phase}, {what}: {fault}"] += 1
        await asyncio.sleep(rest_s)


async def slow(seen: Sockets, key: str, again_s: float, wait_s: float) -> None:
    """Send half a body, byte by byte, whenever the server has ended the former try."""
    await asyncio.sleep(wait_s)
    head = (
        f"POST /v1/answers HTTP/1.1\r\nhost: 127.0.0.1:{PORT}\r\nauthorization: Bearer {key}\r\n"
        "content-type: application/json\r\ncontent-length: 1000\r\n\r\n{"
    )
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        except OSError as error:
            seen.ended[type(error).__name__] += 1
            await asyncio.sleep(again_s)
            continue
        seen.open += 1
        seen.most_open = max(seen.most_open, seen.open)
        try:
            seen.ended[await _dribbled(reader, writer, head)] += 1
        finally:
            seen.open -= 1
            writer.close()
        await asyncio.sleep(again_s)


async def _dribbled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> str:
    """Send until the server answers or closes; returns the status."""
    try:
        writer.write(head.encode())
        line = asyncio.ensure_future(reader.readline())
        while not (await asyncio.wait({line}, timeout=1.0))[0]:
            writer.write(b" ")
        return (await line).decode("latin-1").partition(" ")[2][:3] or "closed"
    except OSError as error:
        return type(error).__name__


def crowd(given: argparse.Namespace, line: Connection) -> None:
    """Open the slow sockets once told so, for the seconds of a phase, and send what was seen."""
    line.recv()
    before, seen = time.process_time(), Sockets()

    async def opened() -> None:
        starts = [given.again_s * n / given.sockets for n in range(given.sockets)]
        tasks = [asyncio.create_task(slow(seen, "other", given.again_s, at)) for at in starts]
        await asyncio.sleep(given.seconds)
        await _ended(tasks)

    asyncio.run(opened())
    line.send({"most_open": seen.most_open, "ended": dict(seen.ended),
               "cpu_s": round(time.process_time() - before, 2)})  # fmt: skip


async def during(seen: Seen, phase: str, work: Any) -> None:
    """Run a phase, and note the share of a core that each process takes in it."""

    def spent() -> dict[str, float]:
        return {"asking": time.process_time(), **{k: cpu_s(v) for k, v in PROCESSES.items()}}

    seen.phase, before, began = phase, spent(), time.monotonic()
    await work
    seconds = time.monotonic() - began
    seen.cores[phase] = {k: round((v - before[k]) / seconds, 2) for k, v in spent().items()}


async def phases(url: str, given: argparse.Namespace) -> Seen:
    """Run the three phases."""
    line, far = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=crowd, args=(given, far))
    process.start()
    seen, texts = Seen(), itertools.cycle(row["text"] for row in read_gold(resource_path(SAMPLE)))
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    bearer = {"authorization": "Bearer clinic"}
    async with aiohttp.ClientSession(url, timeout=timeout) as session:

        def ask() -> Any:
            return session.post("/v1/answers", json={"question": next(texts)}, headers=bearer)

        tasks = [
            asyncio.create_task(asking(seen, "answer", _REST_S, ask)) for _ in range(given.clients)
        ]
        health = asking(seen, "health", _HEALTH_S, lambda: session.get("/healthz"))
        tasks.append(asyncio.create_task(health))
        await asyncio.sleep(given.seconds / 6)
        seen.seconds.clear()
        await during(seen, PHASES[0], asyncio.sleep(given.seconds))
        line.send("go")
        await during(seen, PHASES[1], asyncio.to_thread(line.poll, None))
        seen.sockets = line.recv()
        await during(seen, PHASES[2], asyncio.sleep(given.seconds / 2))
        await _ended(tasks)
    process.join()
    return seen


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def figures(seen: Seen) -> dict[str, Any]:
    """Of each phase and kind of request: how many, p50, p95 and the longest."""
    found: dict[str, Any] = {}
    for (phase, what), values in seen.seconds.items():
        times = sorted(values)
        found.setdefault(phase, {})[what] = {
            "n": len(times),
            "p50_ms": round(1000 * statistics.median(times), 1),
            "p95_ms": round(1000 * times[int(0.95 * (len(times) - 1))], 1),
            "most_ms": round(1000 * times[-1], 1),
        }
    return {**found, "failed": dict(seen.failed), "sockets": seen.sockets, "cores": seen.cores}


def main() -> None:
    """Run it against a server of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("--sockets", type=int, default=1000)
    parser.add_argument("--again-s", type=float, default=10.0, help="until one is opened again")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each phase, the last half")
    parser.add_argument("--unlimited", action="store_true", help="without limits on bodies")
    parser.add_argument("overrides", nargs="*", help="of `srrag serve`, such as limits.body_s=5")
    given = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys"
        names = ("clinic", "other")
        keys.write_text(
            "".join(f"{name} {hashlib.sha256(name.encode()).hexdigest()}\n" for name in names)
        )
        overrides = [f"root={given.root}", f"port={PORT}", "pipeline=bm25", f"api_keys={keys}",
                     f"log={folder}/log.jsonl", *(UNLIMITED if given.unlimited else ()),
                     *given.overrides]  # fmt: skip
        command = shlex.join(["srrag", "serve", *overrides])
        told = settings_of({**configure("serve", overrides), "command": command})
        with served(told, Cluster()) as url:
            seen = asyncio.run(phases(url, given))
    print(json.dumps({**figures(seen), "load_average": os.getloadavg()[0]}))
    sys.exit(0)


if __name__ == "__main__":
    main()
