from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from srrag.serve.ray import starting as module
from srrag.serve.ray.deployments import Cluster, served
from srrag.serve.ray.starting import Health, check_port, failure_line
from tests.unit.serve.serving import free_port, settings


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
