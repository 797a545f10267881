"""What serving costs over the pipeline itself, and what batching gives back.

    python -m perf.serve ROOT --rounds 3

One server on Ray; the same questions in this process, then over HTTP by 1, 8 and 32 clients in
turns, the best round of each, as other work on the machine can only slow a round down. CPU is that
of the replica alone. The last line on stdout is one JSON object: seconds a question, their ratios,
rows a batch.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import shlex
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from srrag.config import factory
from srrag.config.compose import configure
from srrag.evaluate.references import read_gold, resource_path
from srrag.retrieve.questions import question_table
from srrag.serve.configured import settings_of
from srrag.serve.ray.deployments import Cluster, served

CLIENTS = (1, 8, 32)
PORT = 8155
SAMPLE = "pkg://srrag/sample/questions.jsonl"
Ask = Callable[[aiohttp.ClientSession, str], Awaitable[float]]


def in_process(config: dict[str, Any], questions: list[str]) -> dict[str, float]:
    """Wall and CPU seconds of a question by the opened pipeline, one at a time."""
    pipeline = factory.make(config["pipeline"], "pipeline")
    at = factory.pipeline_run(config, pipeline).place(factory.place(config))
    function = pipeline.open(at)
    seconds, busy = [], time.process_time()
    for text in questions:
        began = time.perf_counter()
        function(question_table([{"query_id": "0", "text": text}])).to_pylist()
        seconds.append(time.perf_counter() - began)
    busy = time.process_time() - busy
    return {"cpu_s_each": busy / len(questions), "p50_s": statistics.median(seconds)}


async def answer(session: aiohttp.ClientSession, text: str) -> float:
    """Seconds until the whole answer is there."""
    began = time.perf_counter()
    async with session.post("/v1/answers", json={"question": text}) as response:
        await response.read()
        assert response.status == 200, await response.text()
    return time.perf_counter() - began


async def first_event(session: aiohttp.ClientSession, text: str) -> float:
    """Seconds until the first server-sent event; the rest is read too."""
    began = time.perf_counter()
    async with session.post("/v1/answers/stream", json={"question": text}) as response:
        assert response.status == 200
        await response.content.readline()
        seconds = time.perf_counter() - began
        await response.read()
    return seconds


async def clients(url: str, number: int, texts: list[str], ask: Ask) -> dict[str, float]:
    """Ask all texts by this many clients: seconds a question, p50 and p95 of each answer."""
    waiting = iter(texts)
    seconds: list[float] = []

    async def client(session: aiohttp.ClientSession) -> None:
        for text in waiting:
            seconds.append(await ask(session, text))

    async with aiohttp.ClientSession(url) as session:
        await answer(session, texts[0])
        rows = await batches(session)
        busy, began = replica_cpu_s(), time.perf_counter()
        await asyncio.gather(*(client(session) for _ in range(number)))
        wall, busy = time.perf_counter() - began, replica_cpu_s() - busy
        after = await batches(session)
    seconds.sort()
    return {
        "s_each": wall / len(texts),
        "cpu_s_each": busy / len(texts),
        "p50_s": statistics.median(seconds),
        "p95_s": seconds[int(0.95 * len(seconds))],
        "rows_a_batch": (after[1] - rows[1]) / (after[0] - rows[0]),
    }


async def batches(session: aiohttp.ClientSession) -> tuple[float, float]:
    """Batches and rows so far."""
    async with session.get("/metrics") as response:
        pairs = [line.rsplit(" ", 1) for line in (await response.text()).splitlines()]
    found = {name.partition("{")[0]: value for name, value in pairs}  # of the one replica
    return float(found["srrag_batch_rows_count"]), float(found["srrag_batch_rows_sum"])


def replica_cpu_s() -> float:
    """CPU seconds of the replica so far."""
    children = psutil.Process().children(recursive=True)
    times = [p.cpu_times() for p in children if "ServeReplica:srrag" in " ".join(p.cmdline())]
    return sum(each.user + each.system for each in times)


def main() -> None:
    """Run all measurements against one server."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("--questions", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pipeline", default="hybrid_maxsim")
    given = parser.parse_args()
    overrides = [f"root={given.root}", f"port={PORT}", f"profile.threads={given.threads}"]
    overrides.append(f"pipeline={given.pipeline}")
    command = shlex.join(["srrag", "serve", *overrides])
    config = {**configure("serve", overrides), "command": command}
    asked = [row["text"] for row in read_gold(resource_path(SAMPLE))]
    texts = list(itertools.islice(itertools.cycle(asked), given.questions))
    best: dict[str, dict[str, float]] = {}
    with served(settings_of(config), Cluster()) as url:
        in_process(config, texts[:4])
        for turn in range(given.rounds):
            found = {"in process": in_process(config, texts)}
            for number in CLIENTS:
                found[f"{number} clients"] = asyncio.run(clients(url, number, texts, answer))
            found["first event"] = asyncio.run(clients(url, 1, texts[:32], first_event))
            print(turn, json.dumps(found), file=sys.stderr, flush=True)
            for name, figures in found.items():
                if name not in best or figures["p50_s"] < best[name]["p50_s"]:
                    best[name] = figures
    one, many = best["1 clients"], best["32 clients"]
    ratios = {
        "served over in process, p50": one["p50_s"] / best["in process"]["p50_s"],
        "served over in process, CPU": one["cpu_s_each"] / best["in process"]["cpu_s_each"],
        "32 clients over 1, time a question": many["s_each"] / one["s_each"],
        "32 clients over 1, CPU a question": many["cpu_s_each"] / one["cpu_s_each"],
    }
    told = {"pipeline": given.pipeline, "questions": len(texts)}
    print(json.dumps({**told, "ratios": ratios, **best}))


if __name__ == "__main__":
    main()
