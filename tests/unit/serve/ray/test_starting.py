"""What a server says before it is up, and while it goes."""

from __future__ import annotations

import socket
import sys
import threading
import time
from contextlib import suppress
from functools import partial

import httpx
import pytest

from srrag.serve.ray.starting import says_starting, says_stopping
from tests.unit.serve.serving import free_port

# To this machine: no certificates are read for each request.
get, post = (partial(each, verify=False) for each in (httpx.get, httpx.post))


def test_requests_get_503_until_the_proxy_takes_the_port() -> None:
    port = free_port()
    with says_starting("127.0.0.1", port):
        for response in (
            get(f"http://127.0.0.1:{port}/healthz"),
            post(f"http://127.0.0.1:{port}/v1/answers", json={"question": "x"}),
        ):
            assert response.status_code == 503 and int(response.headers["retry-after"]) >= 1
            assert response.json()["error"]["code"] == "not_ready"
        for _ in range(40):  # an answer is read even where the body was not yet
            assert post(f"http://127.0.0.1:{port}/", content=b"x" * 300_000).is_error
    with pytest.raises(httpx.ConnectError):
        get(f"http://127.0.0.1:{port}/healthz")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere listeners share a port")
def test_the_proxy_gets_no_connection_before_the_end_and_all_after_it() -> None:
    port = free_port()
    with socket.socket() as proxy:
        with says_starting("127.0.0.1", port):
            proxy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as Ray's proxy listens
            proxy.bind(("127.0.0.1", port))
            proxy.listen(64)
            proxy.settimeout(5)
            for _ in range(40):
                assert get(f"http://127.0.0.1:{port}/readyz").status_code == 503
            early = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
            for each in early:
                each.sendall(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")
        for each in early:  # connected before the end: answered, not reset
            assert each.recv(64).startswith(b"HTTP/1.0 503")
            each.close()
        for _ in range(40):
            with socket.create_connection(("127.0.0.1", port)):
                proxy.accept()[0].close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere listeners share a port")
def test_the_proxy_gets_no_connection_once_the_server_stops() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1/answers"
    with socket.socket() as proxy:
        with says_starting("127.0.0.1", port):
            proxy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            proxy.bind(("127.0.0.1", port))
            proxy.listen(64)
            proxy.settimeout(5)
        with (
            socket.create_connection(("127.0.0.1", port)) as asked,
            says_stopping("127.0.0.1", port),
        ):
            taken, _ = proxy.accept()
            for _ in range(20):
                told = post(url, json={"question": "x"})
                assert told.status_code == 503 and int(told.headers["retry-after"]) >= 1
            proxy.close()  # as Ray ends it
            for _ in range(20):
                assert post(url, json={"question": "x"}).status_code == 503
            taken.sendall(b"what was in hand is answered")
            taken.close()
            assert asked.recv(64) == b"what was in hand is answered"
    with pytest.raises(httpx.ConnectError):
        get(url)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere listeners share a port")
def test_who_asks_without_end_keeps_no_server_from_ending() -> None:
    port, ended = free_port(), threading.Event()

    def ask() -> None:
        while not ended.is_set():
            with suppress(httpx.HTTPError):
                post(f"http://127.0.0.1:{port}/v1/answers", json={"question": "x"}, timeout=5)
            time.sleep(0.02)

    def serve() -> None:
        with says_stopping("127.0.0.1", port):
            time.sleep(0.2)

    asking = [threading.Thread(target=ask) for _ in range(3)]
    server = threading.Thread(target=serve, daemon=True)
    for each in (server, *asking):
        each.start()
    server.join(timeout=30)
    ended.set()
    for each in asking:
        each.join()
    assert not server.is_alive()
