"""What a server says before it is up, and while it goes."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from srrag.serve.ray import starting as module
from srrag.serve.ray.deployments import Cluster, served
from srrag.serve.ray.starting import Health, check_port, failure_line, says_starting, says_stopping
from tests.unit.serve.serving import free_port, settings

# To this machine: no certificates are read for each request.
get, post = (partial(each, verify=False, timeout=60) for each in (httpx.get, httpx.post))


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


@contextmanager
def shared(family: socket.AddressFamily, host: str, port: int = 0) -> Iterator[int]:
    """A port that is listened at as Ray's proxies do: others may too."""
    with socket.socket(family) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((host, port))
        sock.listen()
        yield sock.getsockname()[1]


@pytest.mark.parametrize(
    ("listens", "asked"),
    [("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "localhost"), ("0.0.0.0", "127.0.0.1"),
     ("::1", "::1")],
)  # fmt: skip
def test_a_port_is_not_shared_with_whoever_listens(listens: str, asked: str) -> None:
    family = socket.AF_INET6 if ":" in listens else socket.AF_INET
    with (
        shared(family, listens) as port,
        pytest.raises(RuntimeError, match=f"^port={port}: {asked} cannot be listened at: "),
    ):
        check_port(asked, port)
    check_port(asked, port)


def test_a_host_of_another_machine_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"^port=80: 192\.0\.2\.1 cannot be listened at: "):
        check_port("192.0.2.1", 80)


def test_a_second_server_is_refused_before_its_ray_starts(sample_root: Path) -> None:
    told = settings(sample_root, "pipeline=bm25", f"port={free_port()}")
    with (
        shared(socket.AF_INET, "127.0.0.1", told.port),
        pytest.raises(RuntimeError, match=f"port={told.port}: .*[Aa]ddress already in use"),
        served(told, Cluster()),
    ):
        pytest.fail("it shares the port")


def test_a_failed_start_is_told_by_the_error_of_its_deployment() -> None:
    """As Ray tells it: a line for the application, a traceback for the deployment."""
    told = (
        "The deployment failed to start 3 times in a row. Error:\n"
        "\x1b[36mray::ServeReplica:srrag:srrag.initialize()\x1b[39m (pid=1)\n"
        '  File "snapshot.py", line 7, in __init__\n'
        "ValueError: betr.json: there is no such file\n"
        "The above exception was the direct cause of the following exception:\n"
        "RuntimeError: Traceback (most recent call last):\n"
        "srrag.core.errors.UsageError: betr.json: there is no such file; fit it first\n"
    )
    failed = "Failed to update the deployments ['srrag']."
    line = "betr.json: there is no such file; fit it first"
    assert failure_line(failed, {"srrag": told}) == line
    assert failure_line(failed, {"srrag": "", "ranker": told}) == f"ranker: {line}"
    assert failure_line(failed, {"srrag": ""}) == failed
    assert failure_line("", {}) == "the server failed"


def test_a_deployment_that_is_asked_nothing_may_have_no_replica(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def app(status: str, **states: int) -> SimpleNamespace:
        idle = SimpleNamespace(status=status, replica_states=states, message="it fell")
        busy = SimpleNamespace(status="HEALTHY", replica_states={"RUNNING": 1}, message="")
        return SimpleNamespace(message="", deployments={"srrag": busy, "ranker": idle})

    seen: list[SimpleNamespace] = []
    status = SimpleNamespace(status=lambda: SimpleNamespace(applications={"srrag": seen[-1]}))
    monkeypatch.setattr(module, "serve", status)
    health = Health(0.0)
    for well in (app("HEALTHY"), app("UPSCALING", RUNNING=1, STARTING=1)):
        seen.append(well)
        assert health.failed() == ""
    seen.append(app("UPSCALING", STARTING=1))  # too long for the 0 s that it has
    assert health.failed() == "it fell"
