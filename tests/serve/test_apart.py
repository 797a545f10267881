"""Steps and engines in deployments of their own; replicas that die under load lose no answer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import psutil
import pytest

from perf.serve_load import load, replicas
from srrag.evaluate.references import read_gold, resource_path
from srrag.serve.ray.deployments import Cluster, served
from tests.unit.serve.serving import CAST, CitingModel, citing, events, free_port, settings
from tests.unit.serve.serving import served as served_here

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]
SAMPLE = "pkg://srrag/sample/questions.jsonl"
LOAD_S = 6.0
CLIENTS = 6
READY_S = 30.0
APART = [
    "+deployments.ranker.steps=[RerankMaxSim]", "+deployments.ranker.min_replicas=2",
    "+deployments.ranker.cpus=0.5", "+deployments.windows.steps=[SearchDense]",
    "+deployments.windows.shards=2", "+deployments.windows.cpus=0.5",
    "+deployments.windows.min_replicas=2",
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
    [
        ("srrag", "hybrid_maxsim"),
        ("ranker", "hybrid_maxsim"),
        ("windows-0", "hybrid_maxsim"),
        ("engine", "model"),
    ],
)
def test_one_replica_of_two_dies_and_no_request_fails(
    url: str, deployment: str, pipeline: str
) -> None:
    wait_for_both(deployment)
    texts = [row["text"] for row in read_gold(resource_path(SAMPLE))]
    texts = [f"{text} ({deployment} {number})" for number, text in enumerate(texts * 40)]
    seen = asyncio.run(asked_while_killed(url, pipeline, texts, replicas(deployment)[:1]))
    assert {reply.status for reply in seen} == {200}, {reply.text for reply in seen}
    wait_for_both(deployment)


def test_all_replicas_of_a_shard_die_and_no_answer_lacks_its_windows(url: str) -> None:
    texts = [row["text"] for row in read_gold(resource_path(SAMPLE))][:CLIENTS]
    wait_for_both("windows-1")
    before = asyncio.run(asked_while_killed(url, "hybrid_maxsim", texts, []))
    whole = {reply.asked: reply.found() for reply in before}
    killed = replicas("windows-1")
    seen = asyncio.run(asked_while_killed(url, "hybrid_maxsim", texts * 40, killed))
    failed = [reply for reply in seen if reply.status != 200]
    assert {reply.status for reply in failed} <= {503}, {reply.text for reply in failed}
    assert all(reply.began < 0 for reply in failed), "those that came later wait for it"
    assert len(failed) <= CLIENTS
    assert all(reply.found() == whole[reply.asked] for reply in seen if reply not in failed)
    assert 0 < min(reply.ended for reply in seen if reply.began > 0) < READY_S
    wait_for_both("windows-1")


@dataclass(frozen=True)
class Reply:
    """What became of a request; its times are seconds after the kill."""

    asked: str
    status: int
    text: str
    began: float
    ended: float

    def found(self) -> list[Any]:
        """What the answer rests on."""
        told = json.loads(self.text)
        return [told["answer"], *((item["unit_id"], item["score"]) for item in told["evidence"])]


async def asked_while_killed(
    url: str, pipeline: str, texts: Sequence[str], killed: Sequence[psutil.Process]
) -> list[Reply]:
    """Ask by a few clients, each text once, for at most LOAD_S; processes die in the middle."""
    began, waiting = time.monotonic(), iter(texts)
    kill_at = began + LOAD_S / 3
    seen: list[Reply] = []
    async with aiohttp.ClientSession(url) as session:

        async def client() -> None:
            for text in waiting:
                if (asked_at := time.monotonic()) > began + LOAD_S:
                    return
                body = {"question": text, "pipeline": pipeline}
                async with session.post("/v1/answers", json=body) as response:
                    told = await response.text()
                    times = asked_at - kill_at, time.monotonic() - kill_at
                    seen.append(Reply(text, response.status, told, *times))

        async def kill() -> None:
            if killed:
                await asyncio.sleep(kill_at - time.monotonic())
            for process in killed:
                os.kill(process.pid, signal.SIGKILL)

        await asyncio.gather(kill(), *(client() for _ in range(CLIENTS)))
    return seen


def wait_for_both(deployment: str) -> None:
    """Wait until two replicas are there: a killed one has a successor."""
    until = time.monotonic() + 90
    while len(replicas(deployment)) < 2:
        assert time.monotonic() < until
        time.sleep(0.2)
