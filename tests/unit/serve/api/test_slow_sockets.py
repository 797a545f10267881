"""Real sockets that send half a request and wait."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tests.unit.serve.serving import listening, settings

HALF = (
    b"POST /v1/feedback HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 500\r\n\r\n{"
)


def test_half_sent_requests_hold_up_nobody_and_are_given_up(sample_root: Path) -> None:
    told = settings(sample_root, "pipeline=bm25", "limits.per_caller=20", "limits.body_s=3")
    with listening(told) as url, ExitStack() as opened:
        address = urlsplit(url)
        assert address.hostname and address.port
        sockets = []
        for _ in range(100):
            sock = socket.create_connection((address.hostname, address.port), timeout=10)
            opened.enter_context(sock)
            sock.sendall(HALF)
            sockets.append(sock)
        began = time.monotonic()
        assert httpx.get(f"{url}healthz").status_code == 200
        assert time.monotonic() - began < 2
        statuses = [sock.recv(64).split()[1] for sock in sockets]
        assert statuses.count(b"408") == 20, "in progress until their time was over"
        assert statuses.count(b"429") == 80, "refused at once"
        assert httpx.get(f"{url}v1/models").status_code == 200, "all places are free again"
