"""What one key's full load costs another's questions, route by route.

    python -m perf.serve_shared ROOT --seconds 15

Starts `srrag serve` on a root with two keys. The quiet key asks one question after the other with a
pause between; once alone, then while clients of the busy key send a route what it accepts, as fast
as it is taken. The last line on stdout is one JSON object: p50 and p95 of the quiet key's seconds
alone and under each route, faults of either, requests of the busy key.
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
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

PORT = 8157
CLIENTS = 6
PAUSE_S = 0.1
QUESTIONS = [
    "How long may an acute lateral ankle sprain be immobilised in a cast?",
    "Does stretching relieve plantar heel pain?",
    "Is exercise better than rest for low back pain?",
]
RERANK = {"query": "knee", "documents": ["knee brace pain in adults " * 38] * 256}
ROUTES: dict[str, tuple[str, Any]] = {
    "rerank": ("/v1/rerank", RERANK),
    "answers": ("/v1/answers", {"question": QUESTIONS[1]}),
    "clinical": ("/v1/answers", {"question": QUESTIONS[2], "options": {"clinical": True}}),
    "stream": ("/v1/answers/stream", {"question": QUESTIONS[1]}),
    "search": ("/v1/search", {"query": QUESTIONS[2], "k": 50}),
    "chat": (
        "/v1/chat/completions",
        {"model": "srrag", "messages": [{"role": "user", "content": QUESTIONS[0]}]},
    ),
    "graph": ("/v1/graph/pain", None),
    "library": ("/v1/library", None),
}


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


async def measured(session: aiohttp.ClientSession, seconds: float, route: str) -> dict[str, Any]:
    """The quiet key's seconds while the busy key sends a route; "" for none."""
    until, busy, quiet, took = time.monotonic() + seconds, Counter[int](), Counter[int](), []

    async def attack() -> None:
        while time.monotonic() < until:
            busy[(await sent(session, "busy", *ROUTES[route]))[0]] += 1

    clients = [asyncio.create_task(attack()) for _ in range(CLIENTS if route else 0)]
    await asyncio.sleep(1.0 if route else 0.0)
    for question in itertools.cycle(QUESTIONS):
        if time.monotonic() >= until:
            break
        status, each = await sent(session, "quiet", "/v1/answers", {"question": question})
        quiet[status] += 1
        took.append(each)
        await asyncio.sleep(PAUSE_S)
    await asyncio.gather(*clients)
    p50, p95 = np.quantile(took, [0.5, 0.95]).round(4).tolist()
    return {"n": len(took), "p50": p50, "p95": p95, "quiet": dict(quiet), "busy": dict(busy)}


async def table(seconds: float) -> dict[str, Any]:
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
        await measured(session, 3.0, "")
        rows = {"alone": await measured(session, seconds, "")}
        for route in ROUTES:
            rows[route] = await measured(session, seconds, route)
            ratio = rows[route]["p95"] / rows["alone"]["p95"]
            print(f"{route:<9} {ratio:5.2f} × {rows[route]}", file=sys.stderr, flush=True)
        rows["alone again"] = await measured(session, seconds, "")
        return rows


def main() -> None:
    """Serve, attack, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--seconds", type=float, default=15.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys"
        hashes = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("busy", "quiet")}
        keys.write_text("".join(f"{name} {each}\n" for name, each in hashes.items()))
        command = [sys.executable, "-m", "srrag", "serve", f"root={given.root}", f"port={PORT}"]
        environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
        with (Path(folder) / "log").open("w") as log:
            server = subprocess.Popen(
                [*command, f"api_keys={keys}"], env=environment, stdout=log, stderr=log
            )
            try:
                print(json.dumps(asyncio.run(table(given.seconds))))
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait(60)


if __name__ == "__main__":
    main()
