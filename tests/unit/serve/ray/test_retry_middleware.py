"""Requests that outlive their replica, by a proxy whose replicas die when they are told to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.responses import PlainTextResponse, Response
from starlette.testclient import TestClient

from srrag.serve.ray.retry_middleware import TRIES, RetryOnReplicaDeath
from srrag.serve.settings import Limits


class Proxy:
    """As Ray's: ends without a response when the replica dies, and refuses in words of its own."""

    def __init__(
        self,
        deaths: int,
        refuses: int = 0,
        says_first: bool = False,
        dies_after_s: float = 0.0,
    ) -> None:
        self.deaths, self.refuses, self.says_first = deaths, refuses, says_first
        self.dies_after_s = dies_after_s
        self.bodies: list[bytes] = []
        self.headers: list[dict[bytes, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.bodies.append(body)
        self.headers.append(dict(scope["headers"]))
        if self.refuses:
            await PlainTextResponse("Ray's own words", self.refuses)(scope, receive, send)
        elif len(self.bodies) <= self.deaths:
            await asyncio.sleep(self.dies_after_s)
            if self.says_first:
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"half", "more_body": True})
                raise ConnectionResetError
        else:
            headers = {"x-content-type-options": "nosniff"}
            await Response(body, headers=headers)(scope, receive, send)


def post(proxy: Proxy, body: bytes = b"question", headers: dict[str, str] | None = None) -> Any:
    client = TestClient(RetryOnReplicaDeath(proxy, Limits()), raise_server_exceptions=False)
    return client.post("/v1/answers", content=body, headers=headers)


def test_a_request_is_asked_again_with_its_whole_body() -> None:
    for deaths in range(TRIES):
        proxy = Proxy(deaths)
        response = post(proxy)
        assert (response.status_code, response.text) == (200, "question")
        assert proxy.bodies == [b"question"] * (deaths + 1)


def test_one_that_kills_every_replica_ends() -> None:
    proxy = Proxy(100)
    response = post(proxy, headers={"x-request-id": "mine"})
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["request_id"]) == (503, "lost", "mine")
    assert response.headers["retry-after"] in ("1", "2")
    assert len(proxy.bodies) == TRIES


@pytest.mark.parametrize("status", [404, 429, 503])
def test_refusals_of_the_proxy_are_faults_like_others(status: int) -> None:
    proxy = Proxy(0, refuses=status)
    response = post(proxy)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "busy")
    assert response.headers["retry-after"] in ("1", "2") and len(proxy.bodies) == 1


def test_what_was_begun_or_is_long_is_not_asked_again() -> None:
    begun, long = Proxy(1, says_first=True), Proxy(1)
    post(begun)
    assert len(begun.bodies) == 1
    post(long, b"x" * (Limits().max_body_bytes + 1))
    assert len(long.bodies) == 1


def test_time_that_is_lost_counts() -> None:
    proxy = Proxy(1, dies_after_s=0.2)
    assert post(proxy, headers={"x-timeout-s": "10"}).status_code == 200
    first, second = (float(each[b"x-timeout-s"]) for each in proxy.headers)
    assert first == 10 and 5 < second <= 9.8
