"""A real S3 server on loopback (moto), with faults that a test switches on."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
import pytest
from werkzeug.serving import make_server

Environ = dict[str, Any]
Start = Callable[..., Any]

_BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>less</Message></Error>"


@dataclass
class Faults:
    """What goes wrong with the next requests whose method and path a test names.

    `kind` is "503", "hang" (no answer for `seconds`) or "half" (the body breaks off: of what is
    sent to the server half arrives, of what it sends half comes).
    """

    kind: str = ""
    method: str = ""
    within: str = ""
    left: int = 0
    seconds: float = 0.0
    requests: Counter[str] = field(default_factory=Counter)
    """All requests by method."""
    hit: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def set(
        self, kind: str, method: str, within: str = "", times: int = 1, seconds: float = 0.0
    ) -> None:
        """Have the next requests of a method, to paths that hold a text, go wrong."""
        with self.lock:
            self.kind, self.method, self.within = kind, method, within
            self.left, self.seconds, self.hit = times, seconds, 0

    def takes(self, environ: Environ) -> bool:
        """Count a request; whether it is one that goes wrong."""
        with self.lock:
            method = environ["REQUEST_METHOD"]
            self.requests[method] += 1
            if not self.left or method != self.method or self.within not in environ["PATH_INFO"]:
                return False
            self.left -= 1
            self.hit += 1
            return True


class Faulty:
    """The S3 application behind the faults."""

    def __init__(self, faults: Faults) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app

        self.app = DomainDispatcherApplication(create_backend_app)
        self.faults = faults

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        if not self.faults.takes(environ):
            return self.app(environ, start)
        if self.faults.kind == "hang":
            time.sleep(self.faults.seconds)
            return self.app(environ, start)
        if self.faults.kind == "half" and environ["REQUEST_METHOD"] == "GET":
            return self._half(environ, start)
        if self.faults.kind == "half":
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0) // 2)
            raise ConnectionAbortedError("half of it arrived")
        start("503 Slow Down", [("Content-Type", "application/xml")])
        return [_BUSY]

    def _half(self, environ: Environ, start: Start) -> Iterator[bytes]:
        body = b"".join(self.app(environ, start))
        yield body[: len(body) // 2]
        raise ConnectionAbortedError("half of it was sent")


@dataclass(frozen=True)
class Bucket:
    """A bucket of the server."""

    name: str
    url: str
    faults: Faults

    def names(self, prefix: str = "") -> list[str]:
        """The keys of its objects."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=prefix
        )
        return [each["Key"] for page in pages for each in page.get("Contents", [])]

    def read(self, key: str) -> bytes:
        """An object, past all that this project does."""
        found: bytes = self._client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return found

    def write(self, key: str, body: bytes) -> None:
        """Put an object, past all that this project does."""
        self._client.put_object(Bucket=self.name, Key=key, Body=body)

    @cached_property
    def _client(self) -> Any:
        return boto3.client("s3", endpoint_url=self.url)


@contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Iterator[Bucket]:
    """A server with one bucket, and the environment that leads to it."""
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    faults = Faults()
    server = make_server("127.0.0.1", 0, Faulty(faults), threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    for name, value in {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "SRRAG_CACHE": str(cache),
    }.items():
        monkeypatch.setenv(name, value)
    name = f"b{server.server_port}"
    bucket = Bucket(name, url, faults)
    bucket._client.create_bucket(Bucket=name)
    try:
        yield bucket
    finally:
        server.shutdown()
        thread.join(10)
