"""A server in this process: the app as it is, without Ray."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import uvicorn
from starlette.testclient import TestClient

from srrag.answer.write.cited import CitedAnswer
from srrag.answer.write.compose import ComposeAnswer
from srrag.config.compose import configure
from srrag.core.pipeline import Pipeline
from srrag.core.spec import place_field
from srrag.core.step import Function, Place, Step, StepWrapper
from srrag.engine.base import Call, Model, Reply, Worker
from srrag.reading.prose import split_sentences
from srrag.rerank.maxsim import RerankMaxSim
from srrag.serve.api.app import create_app
from srrag.serve.configured import settings_of
from srrag.serve.service import PipelineService
from srrag.serve.settings import ServeSettings

CAST = "How long may an acute lateral ankle sprain be immobilised in a cast?"


def cited(prompt: str) -> str:
    """An answer of two sentences, each word for word that of the piece of evidence it cites."""
    lines = [line for line in prompt.splitlines() if line.startswith('{"n"')]
    pieces = [json.loads(line) for line in lines[:2]]
    quotes = [
        {"text": _longest(piece["text"], piece["section"]), "cites": [piece["n"]]}
        for piece in pieces
    ]
    told = {"answer": quotes[:1], "evidence": quotes[1:], "limits": []}
    answer = CitedAnswer.model_validate({**told, "insufficient": False, "missing": ""})
    return answer.model_dump_json()


def _longest(text: str, section: str) -> str:
    return max((each.text for each in split_sentences(text, section)), key=len)


def settings(root: Path | str, *overrides: str) -> ServeSettings:
    """What `srrag serve` would tell a server."""
    argv = [f"root={root}", "profile.threads=1", "log=null", *overrides]
    return settings_of({**configure("serve", argv), "command": " ".join(["srrag serve", *argv])})


@contextmanager
def served(told: ServeSettings, **options: Any) -> Iterator[tuple[TestClient, PipelineService]]:
    """A client of an app that runs."""
    host = PipelineService(told)
    options = {"base_url": "http://127.0.0.1", "client": ("127.0.0.1", 50000), **options}
    with TestClient(create_app(host), **options) as client:
        yield client, host


def free_port() -> int:
    """A port of loopback that nobody listens on, and that the kernel gives to nobody."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):  # no seed is shared
        with socket.socket() as sock, suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


def events(text: str) -> list[tuple[str, Any]]:
    """Server-sent events: names and data."""
    blocks = [block for block in text.split("\n\n") if block.startswith("event:")]
    pairs = (block.split("\n", 1) for block in blocks)
    return [
        (name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
        for name, data in pairs
    ]


@contextmanager
def listening(told: ServeSettings) -> Iterator[str]:
    """The address of an app that listens on loopback, without Ray: for a browser."""
    options = uvicorn.Config(
        create_app(PipelineService(told)),
        port=free_port(),
        log_level="error",
        timeout_graceful_shutdown=2,
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


@dataclass
class CitingSession:
    """Answers every question in two cited sentences, piece by piece where it is heard."""

    pause_s: float
    given_up: int = 0
    begun: int = 0

    async def complete(self, call: Call) -> Reply:
        self.begun += 1
        began = time.monotonic()
        try:
            await asyncio.sleep(0)
            while time.monotonic() < began + self.pause_s:  # a test may end it
                await asyncio.sleep(min(0.02, self.pause_s))
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return Reply(cited(call.prompt.user), tokens_in=10, tokens_out=20)

    async def stream(self, call: Call) -> AsyncGenerator[str | Reply, None]:
        text = cited(call.prompt.user)
        for start in range(0, len(text), 20):
            yield text[start : start + 20]
            await asyncio.sleep(self.pause_s / 10)
        yield Reply(text, tokens_in=10, tokens_out=20)

    async def close(self) -> None:
        pass


@dataclass(frozen=True, kw_only=True)
class CitingModel(Model):
    """An engine that takes a process of its own for each of two sessions."""

    pause_s: float = place_field(0.0)

    @property
    def name(self) -> str:
        return "citing: two sentences"

    @property
    def replicas(self) -> int:
        return 2

    def worker(self) -> Worker:
        return Worker(cpus=0.1, gpus=0.0)

    async def open(self) -> CitingSession:
        return CitingSession(self.pause_s)


def citing(told: ServeSettings, engine: Model) -> Pipeline:
    """The default pipeline of a server, its answers by an engine."""
    pipeline = told.pipelines[told.default]
    assert any(isinstance(step, ComposeAnswer) for step in pipeline.answer)
    answer = (
        replace(step, engine=engine) if isinstance(step, ComposeAnswer) else step
        for step in pipeline.answer
    )
    return replace(pipeline, answer=tuple(answer))


@dataclass(frozen=True, kw_only=True)
class PacedRanking(StepWrapper):
    """A ranking step whose batch takes `pause_s` longer than it takes the processor."""

    pause_s: float = place_field(0.1)

    def open(self, at: Place) -> Function:
        function = self.step.open(at)

        def run(batch: pa.Table) -> pa.Table:
            out = function(batch)
            time.sleep(self.pause_s)
            return out

        return run


def paced(pipeline: Pipeline, pause_s: float) -> Pipeline:
    """A pipeline whose reranking takes its time."""

    def slow(step: Step) -> Step:
        is_ranking = isinstance(step, RerankMaxSim)
        return PacedRanking(step=step, pause_s=pause_s) if is_ranking else step

    return replace(pipeline, rank=tuple(map(slow, pipeline.rank)))
