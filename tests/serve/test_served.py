"""The API as a Ray Serve deployment, over HTTP on loopback."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
import openai
import pytest

from srrag.lab.measure.references import read_gold, resource_path
from srrag.serve.ray.deployments import Cluster, served
from srrag.serve.settings import Limits
from tests.unit.serve.serving import CAST, events, free_port, settings
from tests.warm_worker import titled

pytestmark = pytest.mark.ray
SAMPLE = "pkg://srrag/sample/questions.jsonl"
QUESTION = {"question": CAST}


@pytest.fixture(scope="module")
def url(ray_cluster: None, sample_root: Path) -> Iterator[str]:
    told = settings(sample_root, f"port={free_port()}", "also=[bm25]", "limits.max_waiting=200")
    with served(told, Cluster()) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=60) as client:
        yield client


def test_an_answer_and_its_stream_come_over_http(client: httpx.Client) -> None:
    response = client.post("/v1/answers", json=QUESTION)
    whole = response.json()
    assert response.status_code == 200 and "ten days" in whole["answer"]
    assert len(response.headers.get_list("x-request-id")) == 1
    heard = events(client.post("/v1/answers/stream", json=QUESTION).text)
    assert [name for name, _ in heard][-1] == "final"
    assert heard[-1][1]["answer"] == whole["answer"]
    assert client.get("/readyz").json()["version"] == whole["version"]


def test_the_openai_client_works(url: str) -> None:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    assert {model.id for model in client.models.list()} == {"srrag", "hybrid_maxsim", "bm25"}
    assert client.models.retrieve("srrag").id == "srrag"
    with pytest.raises(openai.NotFoundError, match="bm25"):
        client.models.retrieve("gpt-4")
    messages: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": CAST},
    ]
    whole = client.chat.completions.create(model="srrag", messages=messages, temperature=0)
    content = whole.choices[0].message.content
    assert content is not None and "[" in content and "Sources:" in content
    extension: Any = whole.model_extra
    assert extension["srrag"]["evidence"]
    stream = client.chat.completions.create(
        model="bm25", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    pieces = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert "ten days" in "".join(pieces)
    assert chunks[-1].usage is not None
    with pytest.raises(openai.NotFoundError, match="bm25"):
        client.chat.completions.create(model="gpt-4", messages=messages)
    with pytest.raises(openai.UnprocessableEntityError):
        client.chat.completions.create(model="srrag", messages=[{"role": "user", "content": "?"}])


def test_many_clients_share_batches_and_each_gets_its_own_answer(
    url: str, client: httpx.Client
) -> None:
    texts = [row["text"] for row in read_gold(resource_path(SAMPLE))][:24]
    alone = {text: client.post("/v1/answers", json={"question": text}).json() for text in texts}

    async def all_at_once() -> list[dict[str, Any]]:
        async with aiohttp.ClientSession(url) as session:

            async def ask(text: str) -> dict[str, Any]:
                async with session.post("/v1/answers", json={"question": text}) as response:
                    found: dict[str, Any] = await response.json()
                    return found

            return list(await asyncio.gather(*map(ask, texts)))

    together = asyncio.run(all_at_once())
    for text, found in zip(texts, together, strict=True):
        assert found["question"] == text
        assert found["answer"] == alone[text]["answer"]
        shown, known = found["evidence"], alone[text]["evidence"]
        assert [item["unit_id"] for item in shown] == [item["unit_id"] for item in known]
    assert max(found["batch_rows"] for found in together) > 1


def test_faults_pass_through_the_proxy(client: httpx.Client, url: str) -> None:
    late = client.post("/v1/answers", json=QUESTION, headers={"x-timeout-s": "0.0005"})
    assert (late.status_code, late.json()["error"]["code"]) == (504, "deadline")
    assert client.post("/v1/answers", json={}).json()["error"]["field"] == "question"
    assert client.get("/readyz", headers={"host": "evil.example"}).status_code == 403


HALF = (
    b"POST /v1/feedback HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 500\r\n\r\n{"
)


def seconds_of_half_bodies(client: httpx.Client, url: str) -> float:
    address = urlsplit(url)
    assert address.hostname and address.port
    with ExitStack() as opened:
        sockets = []
        for _ in range(Limits().slow_bodies + 20):
            sock = socket.create_connection((address.hostname, address.port), timeout=60)
            opened.enter_context(sock)
            sock.sendall(HALF)
            sockets.append(sock)
        assert client.post("/v1/answers", json=QUESTION).status_code == 200
        began = time.monotonic()
        answers = [sock.makefile("rb").read() for sock in sockets]  # until they are closed
    assert {answer.split()[1] for answer in answers} == {b"408"}
    assert all(b'"slow_body"' in answer for answer in answers)
    return time.monotonic() - began


def test_half_a_body_ends_in_the_proxy(client: httpx.Client, url: str) -> None:
    took = min(seconds_of_half_bodies(client, url) for _ in range(2))  # a busy machine pauses
    assert took < 9, "the proxy has its limit from its environment"
    assert "feedback" not in client.get("/metrics").text, "no replica has heard of them"


def test_a_killed_replica_is_replaced(client: httpx.Client) -> None:
    (replica,) = titled("ServeReplica:srrag")
    os.kill(replica.pid, signal.SIGKILL)
    until = time.monotonic() + 90
    while True:
        try:
            if client.post("/v1/answers", json=QUESTION, timeout=10).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        assert time.monotonic() < until
        time.sleep(0.5)
