"""Answers 503 on the server's port until Ray's proxy does."""

from __future__ import annotations

import json
import select
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from srrag.serve.errors import stopping

_MAX_BODY = 1 << 20
"""Bytes of a body that are read, and thrown away, so that its sender reads the answer."""


class _Starting(BaseHTTPRequestHandler):
    """Answers any request with the error of a server that starts."""

    timeout = 2.0  # seconds of silence that a sender may make

    def _answer(self) -> None:
        fault = stopping()
        body = json.dumps(fault.body(uuid.uuid4().hex)).encode()
        self.send_response(fault.status)
        self.close_connection = True
        told = {"content-type": "application/json", "content-length": str(len(body))}
        for name, value in {**told, **fault.headers(), "connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        with suppress(OSError, ValueError):  # closed over unread bytes, a connection is reset
            self.rfile.read(min(int(self.headers.get("content-length", 0)), _MAX_BODY))

    do_GET = do_HEAD = do_POST = _answer

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the server's own log is not open yet."""


@contextmanager
def says_starting(host: str, port: int) -> Iterator[None]:
    """Answer on a port that the proxy comes to share, until the block ends."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET

    class Listener(ThreadingHTTPServer):
        address_family = family
        allow_reuse_port = True
        daemon_threads = True

    with Listener((host, port), _Starting) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            server.timeout = 0
            while select.select([server], [], [], 0)[0]:  # closed, a socket resets those who wait
                server.handle_request()
