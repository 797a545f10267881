"""A server in this process: the app as it is, without Ray."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.testclient import TestClient

from jobs.launch import configure
from jobs.serve import settings_of
from srrag.serve.app import create_app
from srrag.serve.host import Host
from srrag.serve.settings import Settings

CAST = "How long may an acute lateral ankle sprain be immobilised in a cast?"


def settings(root: Path, *overrides: str) -> Settings:
    """What `srrag serve` would tell a server."""
    argv = [f"root={root}", "profile.threads=1", "log=null", *overrides]
    return settings_of({**configure("serve", argv), "command": " ".join(["srrag serve", *argv])})


@contextmanager
def served(told: Settings, **options: Any) -> Iterator[tuple[TestClient, Host]]:
    """A client of an app that runs."""
    host = Host(told)
    with TestClient(create_app(host), base_url="http://127.0.0.1", **options) as client:
        yield client, host


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def events(text: str) -> list[tuple[str, Any]]:
    """Server-sent events: names and data."""
    blocks = [block for block in text.split("\n\n") if block.startswith("event:")]
    pairs = (block.split("\n", 1) for block in blocks)
    return [
        (name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
        for name, data in pairs
    ]


@contextmanager
def listening(told: Settings) -> Iterator[str]:
    """The address of an app that listens on loopback, without Ray: for a browser."""
    options = uvicorn.Config(
        create_app(Host(told)), port=free_port(), log_level="error", timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(options)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.02)
        yield f"http://127.0.0.1:{options.port}/"
    finally:
        server.should_exit = True
        thread.join(30)
