"""Toy pipelines for the tests of sweeps: steps that add a number, fail, or end the run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from srrag.core.pipeline import Pipeline
from srrag.core.rows import filled, rejected
from srrag.core.schema import HITS, REJECT
from srrag.core.spec import place_field
from srrag.core.step import Function, LLMStep, Place, Step
from srrag.engine.base import Call, Reply, Session
from srrag.llm.completion import Completion, Fault, Prompt
from srrag.retrieve.questions import question_table
from srrag.runner.pipeline_run import Sweep
from srrag.runner.runner import LocalRunner, Runner
from srrag.storage.atomic_write import commit_json
from srrag.storage.store import Store
from tests.engines import ScriptedSession, ToyModel, good, prompt

SEEN: Counter[str] = Counter()
"""How many questions each step was given, by the column that it adds."""


@dataclass(frozen=True, kw_only=True)
class Add(Step):
    """Adds the length of the text and an amount as a column; raises on the text `bad`."""

    into: str
    amount: int = 0
    bad: str = ""
    broken: bool = False
    reads: ClassVar[tuple[str, ...]] = ("text",)

    @property
    def writes(self) -> pa.Schema:  # type: ignore[override]
        return pa.schema([pa.field(self.into, pa.int64(), nullable=False)])

    def needs(self) -> tuple[str, ...]:
        return ("units",) if self.into == "from_units" else ()

    def open(self, at: Place) -> Function:
        if self.broken:
            raise OSError(f"the model of {self.into} cannot be loaded")

        def run(batch: pa.Table) -> pa.Table:
            texts = batch["text"].to_pylist()
            if self.bad and self.bad in texts:
                raise ArithmeticError(f"cannot count {self.bad}")
            SEEN[self.into] += len(texts)
            lengths = pa.array([len(text) + self.amount for text in texts], pa.int64())
            return batch.append_column(self.writes.field(0), lengths)

        return run


@dataclass(frozen=True, kw_only=True)
class NoHits(Step):
    """Ends a ranking."""

    writes: ClassVar[pa.Schema] = pa.schema([pa.field("hits", HITS)])

    def open(self, at: Place) -> Function:
        return lambda batch: batch.append_column(
            self.writes.field("hits"), pa.array([[]] * batch.num_rows, HITS)
        )


def ranked(*rank: Step, answer: tuple[Step, ...] = ()) -> Pipeline:
    """A pipeline whose ranking is empty."""
    return Pipeline(rank=(*rank, NoHits()), answer=answer)


def questions(texts: dict[str, str]) -> pa.Table:
    """Questions by their ids."""
    return question_table({"query_id": name, "text": text} for name, text in texts.items())


def sweep(root: Path, *pipelines: Pipeline, runner: Runner | None = None) -> Sweep:
    """Pipelines over a build that holds nothing."""
    store = Store(root)
    store.create()
    if not store.pointer_path("default").exists():
        commit_json(store.pointer_path("default"), {"stages": {}})
    return Sweep(store, "default", pipelines, runner or LocalRunner())


@dataclass(frozen=True)
class MeetingSession:
    """Answers once the session of another engine was called too."""

    folder: Path
    model: str

    async def complete(self, call: Call) -> Reply:
        (self.folder / self.model).touch()
        for _ in range(600):
            if len(list(self.folder.iterdir())) > 1:
                return Reply(good("met"), tokens_in=10, tokens_out=5)
            await asyncio.sleep(0.05)
        return Reply(fault=Fault("alone", "no other engine was called"))

    async def close(self) -> None:
        pass


@dataclass(frozen=True, kw_only=True)
class MeetingModel(ToyModel):
    """An engine that works at the same time as another one, or not at all."""

    folder: str = place_field("")

    async def open(self) -> Session:
        return MeetingSession(Path(self.folder), self.model)


@dataclass(frozen=True, kw_only=True)
class AskText(LLMStep):
    """Adds a word about the text; a fault rejects the row."""

    reads: ClassVar[tuple[str, ...]] = ("text",)
    writes: ClassVar[pa.Schema] = pa.schema(
        [pa.field("word", pa.string()), pa.field("reject", REJECT)]
    )

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        return [prompt(text, row) for row, text in enumerate(batch["text"].to_pylist())]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        return [good("rules") for _ in prompts]

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        made = {
            asked.row: rejected("ask", found.fault) if found.fault else {"word": found.value.word}
            for asked, found in zip(prompts, completions, strict=True)
        }
        return filled(batch, self.writes, made)


@dataclass(frozen=True, kw_only=True)
class OutModel(ToyModel):
    """An engine that is out of order until the file `up` is there."""

    up: str = place_field("")

    async def open(self) -> Session:
        if Path(self.up).exists():
            return await super().open()
        return ScriptedSession(lambda call: Reply(fault=Fault("server", "out of order")))


def meeting(folder: Path) -> list[Pipeline]:
    """Two configurations whose engines have to work at the same time."""
    folder.mkdir()
    models = (MeetingModel(model=name, folder=str(folder)) for name in ("one", "other"))
    return [ranked(Add(into="a"), answer=(AskText(engine=model),)) for model in models]
