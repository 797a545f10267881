"""What one key's full load costs another's questions, route by route.

    python -m perf.serve_shared ROOT --seconds 15
    python -m perf.serve_shared ROOT --seconds 15 --model

Starts `srrag serve` on a root with two keys. The quiet key asks one question after the other with a
pause between, in rounds: alone; while six clients of the busy key, in a process of their own, send
a route what it accepts, as fast as it is taken; and beside a program that uses as much of the
processors as that attack did, which no server can help. With `--model` a model of 0.3 s a call
answers, on an endpoint of its own. The last line on stdout is one JSON object: p50 and p95 of the
quiet key's seconds in each state, the ratios of p95 to that alone with their intervals of 95 %,
faults of either key, requests of the busy one and the processors that they took.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import numpy as np
import psutil

from tests.endpoint_process import started

PORT = 8157
CLIENTS = 6
PAUSE_S = 0.1
QUESTIONS = [
    "How long may an acute lateral ankle sprain be immobilised in a cast?",
    "Does stretching relieve plantar heel pain?",
    "Is exercise better than rest for low back pain?",
]
RERANK = {"query": "knee", "documents": ["knee brace pain in adults " * 38] * 256}
CHAT = {"model": "srrag", "messages": [{"role": "user", "content": QUESTIONS[0]}]}
ROUTES: dict[str, tuple[str, Any]] = {
    "answers": ("/v1/answers", {"question": QUESTIONS[1]}),
    "clinical": ("/v1/answers", {"question": QUESTIONS[2], "options": {"clinical": True}}),
    "stream": ("/v1/answers/stream", {"question": QUESTIONS[1]}),
    "chat": ("/v1/chat/completions", CHAT),
    "chat, streamed": ("/v1/chat/completions", CHAT | {"stream": True}),
    "search": ("/v1/search", {"query": QUESTIONS[2], "k": 50}),
    "rerank": ("/v1/rerank", RERANK),
    "synthesis": ("/v1/synthesis", {"question": QUESTIONS[2]}),
    "graph names": ("/v1/graph_view/names?text=pain", None),
    "graph walk": ("/v1/graph_walk?entity={entity}&text=pain", None),
    "window": ("/v1/windows/{window}", None),
    "library": ("/v1/library", None),
    "runs": ("/v1/runs", None),
    "feedback": ("/v1/feedback", {"answer_id": "1", "verdict": "helpful"}),
}
BY_MODEL = ("answers", "stream", "chat", "search", "rerank")
LEAD_S = 2.0
"""Seconds that a process has to start before the quiet key is measured."""
BUSY = """
import time
end = time.monotonic() + {1}
while time.monotonic() < end:
    until = time.perf_counter() + 0.01 * {0}
    while time.perf_counter() < until: pass
    time.sleep(0.01 * (1 - {0}))
"""
_counted = itertools.count(10_000 * os.getpid())


async def sent(session: aiohttp.ClientSession, key: str, path: str, body: Any) -> tuple[int, float]:
    """Send one request; its status and seconds."""
    began = time.monotonic()
    headers = {"authorization": f"Bearer {key}"}
    request = (
        session.get(path, headers=headers)
        if body is None
        else session.post(path, json=body, headers=headers)
    )
    async with request as reply:
        await reply.read()
        return reply.status, time.monotonic() - began


def anew(body: Any) -> Any:
    """A body whose question nobody asked before, as a model's answers are kept."""
    text = json.dumps(body)
    for question in QUESTIONS:
        text = text.replace(question, f"{question[:-1]} in group {next(_counted)}?")
    return json.loads(text)


async def quiet(session: aiohttp.ClientSession, seconds: float) -> tuple[list[float], Counter[int]]:
    """Seconds and statuses of the quiet key's questions, one after the other."""
    until, took, seen = time.monotonic() + seconds, list[float](), Counter[int]()
    while time.monotonic() < until:
        question = QUESTIONS[len(took) % len(QUESTIONS)]
        status, each = await sent(session, "quiet", "/v1/answers", anew({"question": question}))
        seen[status] += 1
        took.append(each)
        await asyncio.sleep(PAUSE_S)
    return took, seen


async def attack(seconds: float, path: str, body: Any) -> Counter[int]:
    """Statuses of what the busy key's clients send in `seconds`."""
    seen, until = Counter[int](), time.monotonic() + seconds
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{PORT}", timeout=timeout) as session:

        async def client() -> None:
            while time.monotonic() < until:
                seen[(await sent(session, "busy", path, anew(body)))[0]] += 1

        clients = [asyncio.create_task(client()) for _ in range(CLIENTS)]
        ended, waiting = await asyncio.wait(clients, timeout=seconds)
        for each in waiting:
            each.cancel()
        seen[-1] += sum(each.exception() is not None for each in ended)
    return +seen


def used_s(processes: Sequence[psutil.Process]) -> float:
    """Seconds of processors that these and their children have used."""
    total = 0.0
    for process in processes:
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                total += times.user + times.system
    return total


async def state(
    session: aiohttp.ClientSession, seconds: float, server: int, commands: Sequence[list[str]]
) -> tuple[list[float], Counter[int], float, list[str]]:
    """What `quiet` gives while commands run, the processors used, and what the commands print."""
    beside = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in commands]
    try:
        await asyncio.sleep(LEAD_S if beside else 0)
        counted = [psutil.Process(server), *(psutil.Process(each.pid) for each in beside)]
        before, began = used_s(counted), time.monotonic()
        took, seen = await quiet(session, seconds)
        used = (used_s(counted) - before) / (time.monotonic() - began)
    finally:
        told = [process.communicate(timeout=60)[0] for process in beside]
    await asyncio.sleep(0.5 if beside else 0)  # what was in hand is given up
    return took, seen, used, told


def ratio(alone: list[list[float]], under: list[list[float]]) -> list[float]:
    """The ratio of the 95th percentiles over all rounds, and the bounds of 95 % of its draws.

    A draw takes rounds with replacement, then seconds of each.
    """
    draw = np.random.default_rng(0)

    def p95(rounds: list[list[float]], chosen: Any) -> float:
        drawn = [draw.choice(rounds[number], len(rounds[number])) for number in chosen]
        return float(np.quantile(np.concatenate(drawn), 0.95))

    ratios = []
    for _ in range(2000):
        chosen = draw.integers(0, len(alone), len(alone))
        ratios.append(p95(under, chosen) / p95(alone, chosen))
    low, high = np.quantile(ratios, [0.025, 0.975])
    middle = np.quantile(np.concatenate(under), 0.95) / np.quantile(np.concatenate(alone), 0.95)
    return [round(float(each), 2) for each in (middle, low, high)]


async def places(session: aiohttp.ClientSession) -> dict[str, str]:
    """An entity and a window of the root, for the routes that name one."""
    headers = {"authorization": "Bearer quiet"}
    async with session.get("/v1/graph_view/names?text=pain", headers=headers) as reply:
        entities = (await reply.json()).get("entities", [])
    search = {"query": QUESTIONS[0]}
    async with session.post("/v1/search", json=search, headers=headers) as reply:
        hits = (await reply.json())["hits"]
    entity = entities[0]["id"] if entities else ""
    return {"entity": quote(entity, safe=""), "window": quote(hits[0]["unit_id"], safe="")}


async def table(seconds: float, rounds: int, routes: Sequence[str], server: int) -> dict[str, Any]:
    """Wait for the server, warm it, then measure each route in all states, round by round."""
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{PORT}", timeout=timeout) as session:
        for _ in range(240):
            try:
                if (await sent(session, "quiet", "/readyz", None))[0] == 200:
                    break
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.5)
        await quiet(session, 3.0)
        known, rows = await places(session), dict[str, Any]()
        for route in routes:
            path, _ = ROUTES[route]
            sending = [sys.executable, "-m", "perf.serve_shared", path.format(**known)]
            lasts = seconds + 2 * LEAD_S
            sending += ["--attack", route, "--seconds", str(lasts)]
            took: dict[str, list[list[float]]] = {"alone": [], "under": [], "beside": []}
            seen, busy, extra = Counter[int](), Counter[str](), list[float]()
            for _ in range(rounds):
                alone, _, calm, _ = await state(session, seconds, server, [])
                under, statuses, loaded, (sums,) = await state(session, seconds, server, [sending])
                extra.append(max(0.01, loaded - calm))
                share = extra[-1] / math.ceil(extra[-1])
                spinning = [[sys.executable, "-c", BUSY.format(share, lasts)]] * math.ceil(
                    extra[-1]
                )
                beside, *_ = await state(session, seconds, server, spinning)
                for name, each in zip(took, (alone, under, beside), strict=True):
                    took[name].append(each)
                seen += statuses
                busy += Counter(json.loads(sums))
            row: dict[str, Any] = {
                name: np.quantile(np.concatenate(each), [0.5, 0.95]).round(4).tolist()
                for name, each in took.items()
            }
            for name in ("under", "beside"):
                row |= {f"ratio {name}": ratio(took["alone"], took[name])}
            row |= {"n": [sum(map(len, each)) for each in took.values()], "quiet": dict(seen)}
            row |= {"busy": dict(busy), "processors": round(float(np.mean(extra)), 2)}
            rows[route] = row
            print(f"{route:<15} {row}", file=sys.stderr, flush=True)
        return rows


def main() -> None:
    """Serve, attack, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a state in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--routes", help="of ROUTES, with commas; by default all")
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--attack", choices=ROUTES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.attack:
        attacking = attack(given.seconds, given.root, ROUTES[given.attack][1])
        print(json.dumps(asyncio.run(attacking)))
        return
    routes = given.routes.split(",") if given.routes else BY_MODEL if given.model else list(ROUTES)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        keys = Path(folder) / "keys"
        hashes = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("busy", "quiet")}
        keys.write_text("".join(f"{name} {each} runs\n" for name, each in hashes.items()))
        command = [sys.executable, "-m", "srrag", "serve", f"root={given.root}", f"port={PORT}"]
        command += [f"api_keys={keys}", f"completions={folder}/completions", f"log={folder}/log"]
        if given.model:
            options = ("--latency", "0.3", "--lifetime", "3000", "--script", "rules")
            _, url = stack.enter_context(started(Path(folder), *options))
            command += ["engine=http", "engine.model=slow", f"engine.base_url={url}"]
        environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
        with (Path(folder) / "out").open("w") as log:
            server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            try:
                measured = table(given.seconds, given.rounds, routes, server.pid)
                print(json.dumps(asyncio.run(measured)))
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait(60)


if __name__ == "__main__":
    main()
