"""Steps and engines in deployments of their own; replicas that die under load lose no answer."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import httpx
import pytest

from bench.serve_load import load, replicas
from srrag.evaluate.gold import read_gold, resource_path
from srrag.serve.on_ray import Cluster, served
from tests.unit.serve.serving import CAST, CitingModel, citing, events, free_port, settings
from tests.unit.serve.serving import served as served_here

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]
SAMPLE = "pkg://srrag/sample/questions.jsonl"
LOAD_S = 6.0
CLIENTS = 6
APART = [
    "+deployments.ranker.steps=[RerankMaxSim]", "+deployments.ranker.min_replicas=2",
    "+deployments.ranker.cpus=0.5", "+deployments.windows.steps=[SearchDense]",
    "+deployments.windows.shards=2", "+deployments.windows.cpus=0.5",
]  # fmt: skip


@pytest.fixture(scope="module")
def url(
    ray_cluster: None, sample_root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    log = tmp_path_factory.mktemp("completions")
    told = settings(
        sample_root, f"port={free_port()}", f"completions={log}", "limits.max_waiting=8", *APART
    )
    model = citing(told, CitingModel(pause_s=0.05))
    told = replace(told, pipelines={**told.pipelines, "model": model})
    with served(told, Cluster(min_replicas=2, max_replicas=2)) as url:
        yield url


def test_answers_are_those_of_one_deployment(url: str, sample_root: Path) -> None:
    texts = [row["text"] for row in read_gold(resource_path(SAMPLE))][:8]
    assert {len(replicas(name)) for name in ("srrag", "ranker", "engine")} == {2}
    with served_here(settings(sample_root)) as (here, _), httpx.Client(timeout=60) as client:
        for text in texts:
            expected = here.post("/v1/answers", json={"question": text}).json()
            found = client.post(f"{url}/v1/answers", json={"question": text}).json()
            for name in ("answer", "evidence", "sentences", "version"):
                assert found[name] == expected[name], (text, name)


def test_tokens_stream_from_the_deployment_of_an_engine(url: str) -> None:
    body = {"question": CAST, "pipeline": "model"}
    heard = events(httpx.post(f"{url}/v1/answers/stream", json=body, timeout=60).text)
    tokens = [data["text"] for name, data in heard if name == "token"]
    assert len(tokens) > 1
    assert heard[-1][0] == "final"
    assert heard[-1][1]["model"] == "citing: two sentences"
    assert heard[-1][1]["answer"] == "".join(tokens)


def test_what_is_too_much_is_refused_at_once_and_nothing_is_lost(url: str) -> None:
    seen = asyncio.run(load(url, clients=72, seconds=LOAD_S))
    assert set(seen.outcomes) <= {"answered", "streamed", "refused", "late"}, seen.reasons
    assert not seen.reasons, "and each refusal says when to come back"
    times = {name: statistics.median(s for _, s in found) for name, found in seen.outcomes.items()}
    assert times["refused"] < 0.5 * times["answered"], times


@pytest.mark.parametrize(
    ("deployment", "pipeline"),
    [("srrag", "hybrid_maxsim"), ("ranker", "hybrid_maxsim"), ("engine", "model")],
)
def test_one_replica_of_two_dies_and_no_request_fails(
    url: str, deployment: str, pipeline: str
) -> None:
    before = replicas(deployment)
    assert len(before) == 2
    texts = [row["text"] for row in read_gold(resource_path(SAMPLE))]
    outcomes: Counter[str] = Counter()
    killed_at = 0.0

    async def asked() -> None:
        until = time.monotonic() + LOAD_S
        async with aiohttp.ClientSession(url) as session:

            async def client(number: int) -> None:
                place = number
                while time.monotonic() < until:
                    place += CLIENTS
                    text = f"{texts[place % len(texts)]} ({deployment} {place})"
                    body = {"question": text, "pipeline": pipeline}
                    async with session.post("/v1/answers", json=body) as response:
                        text = "answered" if response.status == 200 else await response.text()
                        outcomes[text] += 1

            async def kill() -> None:
                nonlocal killed_at
                await asyncio.sleep(LOAD_S / 3)
                os.kill(before[0].pid, signal.SIGKILL)
                killed_at = time.monotonic()

            await asyncio.gather(kill(), *map(client, range(CLIENTS)))

    asyncio.run(asked())
    assert set(outcomes) == {"answered"}, outcomes
    while len(replicas(deployment)) < 2:
        assert time.monotonic() < killed_at + 90
        time.sleep(0.2)
