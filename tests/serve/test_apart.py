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

from perf.serve_load import load
from srrag.lab.measure.references import read_gold, resource_path
from srrag.serve.ray.deployments import Cluster, served
from tests.unit.serve.serving import CAST, CitingModel, citing, events, free_port, settings
from tests.unit.serve.serving import served as served_here
from tests.warm_worker import titled

pytestmark = pytest.mark.ray
SAMPLE = "pkg://srrag/sample/questions.jsonl"
LOAD_S = 3.0
CLIENTS = 6
BETWEEN = 2 * CLIENTS
"""Replies between two kills, and after the last: of requests that were sent before and after."""

MODELS = {"engine": "model"}
"""Pipelines that a deployment is asked by, where that is not hybrid_maxsim."""

READY_S = 110.0
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
        sample_root,
        f"port={free_port()}",
        f"completions={log}",
        "limits.max_waiting=8",
        "limits.timeout_s=110",
        *APART,
    )
    model = citing(told, CitingModel(pause_s=0.05))
    told = replace(told, pipelines={**told.pipelines, "model": model})
    with served(told, Cluster(min_replicas=2, max_replicas=2)) as url:
        yield url


def test_answers_are_those_of_one_deployment(url: str, sample_root: Path) -> None:
    texts = [row["text"] for row in read_gold(resource_path(SAMPLE))][:8]
    for name in ("srrag", "ranker", "engine"):
        wait_for_both(name)
    with served_here(settings(sample_root)) as (here, _), httpx.Client(timeout=60) as client:
        for text in texts:
            expected = here.post("/v1/answers", json={"question": text}).json()
            found = client.post(f"{url}/v1/answers", json={"question": text}).json()
            for name in ("answer", "evidence", "sentences", "version"):
                assert found[name] == expected[name], (text, name)


def test_tokens_stream_from_the_deployment_of_an_engine(url: str) -> None:
    body = {"question": CAST, "pipeline": "model"}
    heard = events(httpx.post(f"{url}/v1/answers/stream", json=body, verify=False, timeout=60).text)
    tokens = [data["text"] for name, data in heard if name == "token"]
    assert len(tokens) > 1
    assert heard[-1][0] == "final"
    assert heard[-1][1]["model"] == "citing: two sentences"
    assert heard[-1][1]["answer"] == "".join(tokens)


def test_what_is_too_much_is_refused_at_once_and_nothing_is_lost(url: str) -> None:
    for _ in range(10):  # the clients share cores with the server: on a busy machine they are slow
        seen = asyncio.run(load(url, clients=144, seconds=LOAD_S))
        assert set(seen.outcomes) <= {"answered", "streamed", "refused", "late"}, seen.reasons
        assert not seen.reasons, "and each refusal says when to come back"
        if "refused" in seen.outcomes:
            break
    took = {name: sorted(s for _, s in found) for name, found in seen.outcomes.items()}
    assert took["refused"][0] < statistics.median(took["answered"]), "a refusal waits for no answer"


def test_one_replica_of_two_dies_in_each_deployment_and_no_request_fails(url: str) -> None:
    """One after the other in one run: none has its successor yet when the next one dies."""
    deployments = ("srrag", "ranker", "windows-0", "engine")
    for each in deployments:
        wait_for_both(each)
    texts = [row["text"] for row in read_gold(resource_path(SAMPLE))]
    bodies = [
        {"question": f"{text} ({deployment} {number})", "pipeline": pipeline}
        for number in range(40)
        for deployment in deployments
        for pipeline in (MODELS.get(deployment, "hybrid_maxsim"),)
        for text in texts[number : number + 1]
    ]
    victims = [replicas(each)[:1] for each in deployments]
    seen = asyncio.run(asked_while_killed(url, bodies, victims))
    assert {reply.status for reply in seen} == {200}, {reply.text for reply in seen}
    for each in deployments:
        wait_for_both(each)


def test_all_replicas_of_a_shard_die_and_no_answer_lacks_its_windows(url: str) -> None:
    texts = [row["text"] for row in read_gold(resource_path(SAMPLE))][:CLIENTS]
    bodies = [{"question": text, "pipeline": "hybrid_maxsim"} for text in texts]
    wait_for_both("windows-1")
    before = asyncio.run(asked_while_killed(url, bodies, []))
    whole = {reply.asked: reply.found() for reply in before}
    assert set(whole) == set(texts)
    seen = asyncio.run(asked_while_killed(url, bodies * 40, [replicas("windows-1")]))
    failed = [reply for reply in seen if reply.status != 200]
    assert {reply.status for reply in failed} <= {503}, {reply.text for reply in failed}
    assert all(reply.began < 0 for reply in failed), "those that came later wait for it"
    assert len(failed) <= CLIENTS
    assert all(reply.found() == whole[reply.asked] for reply in seen if reply not in failed)
    assert 0 < min(reply.ended for reply in seen if reply.began > 0) < READY_S
    wait_for_both("windows-1")


def replicas(deployment: str) -> list[psutil.Process]:
    """The processes of a deployment."""
    return titled(f"ServeReplica:srrag:{deployment}")


@dataclass(frozen=True)
class Reply:
    """What became of a request; its times are seconds after the last kill."""

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
    url: str, bodies: Sequence[dict[str, str]], victims: Sequence[Sequence[psutil.Process]]
) -> list[Reply]:
    """Ask by a few clients, each body once at most; the next victims die after some replies more.

    It ends some replies after the last of them, of requests that were sent after their death.
    """
    waiting, seen = iter(bodies), list[tuple[float, Reply]]()
    killed_at: list[float] = []

    def is_over() -> bool:
        late = [began for began, _ in seen if killed_at and began > killed_at[-1]]
        return bool(victims) and len(killed_at) == len(victims) and len(late) >= BETWEEN

    async with aiohttp.ClientSession(url) as session:

        async def client() -> None:
            for body in waiting:
                if is_over():
                    return
                began = time.monotonic()
                async with session.post("/v1/answers", json=body) as response:
                    told = await response.text()
                    ended = time.monotonic()
                    reply = Reply(body["question"], response.status, told, began, ended)
                    seen.append((began, reply))

        async def kill() -> None:
            for number, some in enumerate(victims, start=1):
                while len(seen) < number * BETWEEN:
                    await asyncio.sleep(0.01)
                killed_at.append(time.monotonic())
                for process in some:
                    os.kill(process.pid, signal.SIGKILL)

        await asyncio.gather(kill(), *(client() for _ in range(CLIENTS)))
    assert not victims or is_over(), "enough was asked"
    last = killed_at[-1] if killed_at else 0.0
    return [replace(reply, began=began - last, ended=reply.ended - last) for began, reply in seen]


def wait_for_both(deployment: str) -> None:
    """Wait until two replicas are there: a killed one has a successor."""
    until = time.monotonic() + 90
    while len(replicas(deployment)) < 2:
        assert time.monotonic() < until
        time.sleep(0.2)
