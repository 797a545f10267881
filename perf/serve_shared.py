"""What one key's full load costs another's questions, route by route.

    python -m perf.serve_shared ROOT --seconds 15
    python -m perf.serve_shared ROOT --seconds 15 --model

Starts `srrag serve` on a root with two keys. The quiet key asks one question after the other with a
pause between: alone and, in turns with that, while clients of the busy key send a route what it
accepts, as fast as it is taken. "process" is no route: programs beside the server that keep one or
two cores busy, which no server can help. With `--model` a model of 0.3 s a call answers, on an
endpoint of its own. The last line on stdout is one JSON object: p50 and p95 of the quiet key's
seconds alone and under each route, the ratio of the latter with its bootstrap interval of 95 %,
faults of either, requests of the busy key.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import numpy as np

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
PROCESSES = {"process": 1, "process, two": 2}
BUSY = "while True: pass"
ROUNDS = 2
_counted = itertools.count()


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


async def attacked(
    session: aiohttp.ClientSession, seconds: float, route: str, path: str, body: Any
) -> tuple[list[float], Counter[int], Counter[int]]:
    """What `quiet` gives while the busy key sends a route; last, the busy key's statuses."""
    busy = Counter[int]()

    async def attack() -> None:
        while True:
            busy[(await sent(session, "busy", path, anew(body)))[0]] += 1

    clients = [asyncio.create_task(attack()) for _ in range(0 if route in PROCESSES else CLIENTS)]
    beside = [
        subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(PROCESSES.get(route, 0))
    ]
    try:
        await asyncio.sleep(0.5)
        took, seen = await quiet(session, seconds)
    finally:
        for client in clients:
            client.cancel()
        for process in beside:
            process.kill()
            process.wait()
    ended = await asyncio.gather(*clients, return_exceptions=True)
    faults = [each for each in ended if not isinstance(each, asyncio.CancelledError)]
    busy[-1] += len(faults)
    await asyncio.sleep(0.5)  # what was in hand is given up
    return took, seen, +busy


def ratio(alone: list[float], under: list[float]) -> list[float]:
    """The ratio of the 95th percentiles, and the bounds of 95 % of its bootstrap draws."""
    draw = np.random.default_rng(0)

    def p95(took: list[float], times: int) -> Any:
        picked = draw.choice(took, (times, len(took)))
        return np.quantile(picked, 0.95, axis=1)

    low, high = np.quantile(p95(under, 4000) / p95(alone, 4000), [0.025, 0.975])
    middle = np.quantile(under, 0.95) / np.quantile(alone, 0.95)
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


async def table(seconds: float, routes: Sequence[str]) -> dict[str, Any]:
    """Wait for the server, warm it, then measure it alone and under each route."""
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
            path, body = ROUTES.get(route, ("", None))
            alone, under, seen, busy = list[float](), list[float](), Counter[int](), Counter[int]()
            for _ in range(ROUNDS):
                alone += (await quiet(session, seconds / ROUNDS))[0]
                more, *statuses = await attacked(
                    session, seconds / ROUNDS, route, path.format(**known), body
                )
                under += more
                seen += statuses[0]
                busy += statuses[1]
            row = {name: np.quantile(took, [0.5, 0.95]).round(4).tolist()
                   for name, took in (("alone", alone), ("under", under))}  # fmt: skip
            rows[route] = row | {"ratio": ratio(alone, under), "n": [len(alone), len(under)]}
            rows[route] |= {"quiet": dict(seen), "busy": dict(busy)}
            print(f"{route:<15} {rows[route]}", file=sys.stderr, flush=True)
        return rows


def main() -> None:
    """Serve, attack, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each, alone and under")
    parser.add_argument("--routes", help="of ROUTES and PROCESSES, with commas; by default all")
    parser.add_argument("--model", action="store_true")
    given = parser.parse_args()
    by_default = BY_MODEL if given.model else (*ROUTES, *PROCESSES)
    routes = given.routes.split(",") if given.routes else by_default
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
                print(json.dumps(asyncio.run(table(given.seconds, routes))))
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait(60)


if __name__ == "__main__":
    main()
