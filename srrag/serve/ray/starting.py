"""Answers 503 on the server's port until Ray's proxy and pipelines are up, and while they end."""

from __future__ import annotations

import ctypes
import json
import select
import socket
import struct
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from srrag.serve.errors import stopping

_MAX_BODY = 1 << 20
"""Bytes of a body that are read, and thrown away, so that its sender reads the answer."""

_REST_S = 0.1
"""Seconds without a connection after which none is expected."""
_MOST_S = 1.0
"""Seconds for which connections are awaited, as clients that ask without end always send some."""

_FIRST, _SECOND = 0, 1
"""The places of the port's listeners, in order of their start."""

_ATTACH_REUSEPORT_CBPF = 51
_BPF_RETURN = 0x06
"""Linux's numbers, in asm-generic/socket.h and linux/bpf_common.h."""


class _NotReady(BaseHTTPRequestHandler):
    """Answers any request with the error of a server that starts or stops."""

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


class _Listener(ThreadingHTTPServer):
    """Listens on a port that Ray's proxy shares."""

    allow_reuse_port = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _NotReady)

    def steer(self, place: int) -> None:
        """Give new connections to the port's listener number `place`, in order of their start.

        If there are fewer, they are shared, as without this. A classic BPF program of one
        instruction, "return place", for the sockets that share the port: see SO_REUSEPORT and
        SO_ATTACH_REUSEPORT_CBPF in socket(7). Other systems than Linux always share.
        """
        code = ctypes.create_string_buffer(struct.pack("@HBBI", _BPF_RETURN, 0, 0, place))
        program = struct.pack("@HP", 1, ctypes.addressof(code))
        with suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, _ATTACH_REUSEPORT_CBPF, program)

    def answer_rest(self) -> None:
        """Answer who has connected already; closed at once, their connections were reset."""
        self.timeout = 0
        end = time.monotonic() + _MOST_S
        while select.select([self], [], [], _REST_S if time.monotonic() < end else 0)[0]:
            self.handle_request()


@contextmanager
def says_starting(host: str, port: int) -> Iterator[None]:
    """Answer every connection to a port until the block ends, then leave all to the proxy."""
    with _answering(host, port, _FIRST) as server:
        yield
        server.steer(_SECOND)


@contextmanager
def says_stopping(host: str, port: int) -> Iterator[None]:
    """Answer every new connection to a port instead of the proxy, until the block ends."""
    with _answering(host, port, _SECOND):
        yield


@contextmanager
def _answering(host: str, port: int, place: int) -> Iterator[_Listener]:
    with _Listener(host, port) as server:
        server.steer(place)
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
            server.answer_rest()
