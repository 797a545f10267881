"""A model of the tests' own: sessions that answer by a function, slowly, wrongly or not at all."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from srrag.core.schema import relation
from srrag.core.spec import place_field
from srrag.core.step import LLMStep
from srrag.engine.base import Call, Model, Reply, Session, Worker
from srrag.llm.completion import Answer, Completion, Prompt


class Word(Answer):
    word: str = Field(max_length=40)


def prompt(text: str, row: int = 0, **options: Any) -> Prompt:
    return Prompt(row, "word", "Say one word.", text, Word, **options)


def good(word: str) -> str:
    return Word(word=word).model_dump_json()


@dataclass
class ScriptedSession:
    """Answers each call by `script`; counts what it was asked."""

    script: Callable[[Call], Reply | BaseException]
    pause_s: float = 0.0
    asked: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    most_in_flight: int = 0
    closed: bool = False

    async def complete(self, call: Call) -> Reply:
        self.asked[call.prompt.user] += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.pause_s)
            reply = self.script(call)
        finally:
            self.in_flight -= 1
        if isinstance(reply, BaseException):
            raise reply
        return reply

    async def close(self) -> None:
        self.closed = True


def echo(call: Call) -> Reply:
    return Reply(good(call.prompt.user), tokens_in=10, tokens_out=5)


@dataclass(frozen=True, kw_only=True)
class ToyModel(Model):
    """An engine whose session a test hands to it."""

    model: str = "toy"

    @property
    def name(self) -> str:
        return f"toy: {self.model}"

    async def open(self) -> Session:
        return ScriptedSession(echo)


@dataclass(frozen=True, kw_only=True)
class EchoModel(Model):
    """Starts sessions that give a prompt's text back, here or in processes of their own.

    The text `deadly` kills the process, `pause_s` is the latency of a call.
    """

    model: str = "echo"
    pause_s: float = place_field(0.0)
    deadly: str = place_field("")
    apart: int = place_field(0)
    pid_folder: str = place_field("")

    @property
    def name(self) -> str:
        return f"echo: {self.model}"

    @property
    def replicas(self) -> int:
        return max(1, self.apart)

    def worker(self) -> Worker | None:
        return Worker(cpus=0.1, gpus=0.0) if self.apart else None

    async def open(self) -> Session:
        if self.pid_folder:
            Path(self.pid_folder, str(os.getpid())).touch()

        def script(call: Call) -> Reply:
            if self.deadly and self.deadly in call.prompt.user:
                os.kill(os.getpid(), signal.SIGKILL)
            return echo(call)

        return ScriptedSession(script, self.pause_s)


@dataclass(frozen=True, kw_only=True)
class AskNumbers(LLMStep):
    """Asks a word for each number: for the runners' tests."""

    reads: ClassVar[tuple[str, ...]] = ("raw_id", "value")
    writes: ClassVar[pa.Schema] = relation(("raw_id", pa.string()), ("word", pa.string()))

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        return [prompt(f"n{v}.", row) for row, v in enumerate(batch["value"].to_pylist())]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        return [good("rules") for _ in prompts]

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        rows = [
            {
                "raw_id": raw_id,
                "word": answer.value.word if answer.value else "",
                "reject": answer.fault
                and {"stage": "ask", "reason": answer.fault.kind, "detail": answer.fault.detail},
            }
            for raw_id, answer in zip(batch["raw_id"].to_pylist(), completions, strict=True)
        ]
        return pa.Table.from_pylist(rows, schema=self.writes)
