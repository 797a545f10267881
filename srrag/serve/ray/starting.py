"""Whether the server on Ray can start, has started and still answers.

Until Ray's proxy and pipelines are up, and while they end, its port answers 503.
"""

from __future__ import annotations

import ctypes
import json
import re
import select
import socket
import struct
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ray import serve
from ray.serve.schema import ApplicationStatus, ApplicationStatusOverview

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


NAME = "srrag"
_POLL_S = 0.5
_ERROR = re.compile(r"^\s*(?:[\w.]*\.)?\w+(?:Error|Exception): (.+\S)\s*$", re.MULTILINE)
"""The last line of a traceback, without the name of its error."""


def check_port(host: str, port: int) -> None:
    """Raise RuntimeError if the port is taken.

    Ray's proxies share a port with any server that allows it, as another Ray does; callers would
    then get the answers of either server.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET  # as Ray chooses
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        reason = error.strerror or error
        raise RuntimeError(f"port={port}: {host} cannot be listened at: {reason}") from error


def wait_until_up(most_s: float) -> None:
    """Wait until the server runs; raises RuntimeError if it fails or exceeds `most_s` seconds."""
    until = time.monotonic() + most_s
    while time.monotonic() < until:
        app = serve.status().applications[NAME]
        if app.status == ApplicationStatus.RUNNING:
            return
        if app.status == ApplicationStatus.DEPLOY_FAILED:
            raise RuntimeError(_why(app))
        time.sleep(_POLL_S)
    raise RuntimeError(f"the server was not up within {most_s:g} s")


class Health:
    """Distinguishes a lost server from one whose lost replicas Ray is restarting.

    Ray reports the whole server as unhealthy while it restarts replicas, and for ever if there
    are too few nodes.
    """

    def __init__(self, most_s: float) -> None:
        """Start with a server that runs; it may fail to answer for `most_s` seconds."""
        self._most_s = most_s
        self._answered = time.monotonic()

    def failed(self) -> str:
        """Why the server is lost; "" while it answers or may still recover."""
        app = serve.status().applications.get(NAME)
        if app is None:
            return "the server is gone"
        now = time.monotonic()
        if _answers(app):
            self._answered = now
        return _why(app) if now - self._answered > self._most_s else ""


def _answers(app: ApplicationStatusOverview) -> bool:
    """Whether each deployment has a running replica, or none since it is asked nothing."""
    return all(
        any(n for state, n in each.replica_states.items() if state == "RUNNING")
        or each.status == "HEALTHY"
        for each in app.deployments.values()
    )


def _why(app: ApplicationStatusOverview) -> str:
    return failure_line(app.message, {name: d.message for name, d in app.deployments.items()})


def failure_line(message: str, deployments: Mapping[str, str]) -> str:
    """Why an application failed, in one line: the error of a deployment, else its own last line.

    Ray's own message says no more than that deployments could not be updated.
    """
    for name, told in deployments.items():
        if errors := _ERROR.findall(told):
            return f"{name}: {errors[-1]}" if name != NAME else str(errors[-1])
    lines = [
        line.strip() for text in (message, *deployments.values()) for line in text.splitlines()
    ]
    return next((line for line in reversed(lines) if line), "the server failed")
