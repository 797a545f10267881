"""What a server says before it is up."""

from __future__ import annotations

import socket

import httpx
import pytest

from srrag.serve.ray.starting import says_starting
from tests.unit.serve.serving import free_port


def test_requests_get_503_until_the_proxy_takes_the_port() -> None:
    port = free_port()
    with says_starting("127.0.0.1", port):
        for response in (
            httpx.get(f"http://127.0.0.1:{port}/healthz"),
            httpx.post(f"http://127.0.0.1:{port}/v1/answers", json={"question": "x"}),
        ):
            assert response.status_code == 503 and int(response.headers["retry-after"]) >= 1
            assert response.json()["error"]["code"] == "not_ready"
        for _ in range(40):  # an answer is read even where the body was not yet
            assert httpx.post(f"http://127.0.0.1:{port}/", content=b"x" * 300_000).is_error
        with socket.socket() as proxy:  # as Ray's proxy listens
            proxy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            proxy.bind(("127.0.0.1", port))
            proxy.listen()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/healthz")
