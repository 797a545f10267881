"""The abstractions that carry everything: Step, LLMStep and Build."""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from srrag.llm.completion import Account, Client, Completion, Engine, Fault, Prompt, Rules, read
from srrag.llm.retry_invalid import ask
from srrag.storage.manifest import check_files
from srrag.storage.mirror import store_at

Function = Callable[[pa.Table], pa.Table]


ParallelMap = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Calls a function on each item, anywhere that sees the root, and returns the values in order."""


@dataclass(frozen=True)
class Place:
    """Where a step runs: nothing here is part of its identity.

    `artifacts` maps the name of a stage to the folder of its output, `root` is the artifact
    folder itself, `threads` bounds the CPU threads of one worker, `clients` holds the client of
    every engine that the steps ask, `account` says what may be spent on calls, and `spread` is
    where a build may do what one machine is too small for; without it, in this process.
    """

    artifacts: Mapping[str, Path] = field(default_factory=dict)
    root: Path | None = None
    device: str = "cpu"
    threads: int = 1
    clients: Mapping[Engine, Client] = field(default_factory=dict)
    account: Account = field(default_factory=Account)
    spread: ParallelMap | None = None

    def artifact(self, stage: str) -> Path:
        """Return the folder of a stage's output; raises ValueError naming the stage."""
        if stage not in self.artifacts:
            built = ", ".join(sorted(self.artifacts)) or "nothing"
            raise ValueError(f"stage {stage!r} is not built here; the root holds {built}")
        folder = Path(self.artifacts[stage])
        if store_at(folder):  # elsewhere they are here, and whoever bound them has checked them
            check_files(folder)
        return folder

    def client(self, engine: Engine) -> Client | None:
        """The client of an engine, None for the rules; raises ValueError if it is not up."""
        if isinstance(engine, Rules):
            return None
        if engine not in self.clients:
            raise ValueError(f"engine {engine.name!r} is not up; no other is used for it")
        return self.clients[engine]


@dataclass(frozen=True, kw_only=True)
class Step(abc.ABC):
    """A map from one Arrow table to another, whose fields are its configuration.

    A row's output depends on that row, the fields and the opened artifacts alone, never on its
    neighbours: f(a + b) == f(a) + f(b), exactly for all but floats, which agree within `atol`.
    That is what lets a runner batch, split and retry. Bump `version` when the output changes.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[pa.Schema]
    keeps_rows: ClassVar[bool] = True
    """One row out for each row in, in order; False for steps that expand rows."""
    revises: ClassVar[tuple[str, ...]] = ()
    """Columns of steps before that this one writes anew: of an answer, what may not stand."""
    atol: ClassVar[float] = 1e-5
    packed: ClassVar[Mapping[str, tuple[str, float]]] = {}
    """Binary columns that hold arrays of floats: their NumPy type and tolerance."""

    @abc.abstractmethod
    def open(self, at: Place) -> Function:
        """Load what is heavy, once a worker, and return the function on tables."""

    def needs(self) -> tuple[str, ...]:
        """Names of the stages whose artifacts `open` reads."""
        return ()

    def identity(self) -> dict[str, Any]:
        """What defines the output beside the fields: content of prompt files and the like."""
        return {}


def within(item: Any) -> Iterator[Step]:
    """A step and all those that it holds, each before its own; also of lists and mappings."""
    if isinstance(item, Step):
        yield item
    if isinstance(item, Mapping):
        item = tuple(item.values())
    if isinstance(item, (tuple, list)):
        for each in item:
            yield from within(each)
    elif is_dataclass(item):
        for each in fields(item):
            yield from within(getattr(item, each.name))


@dataclass(frozen=True, kw_only=True)
class LLMStep(Step):
    """A Step made of pure halves around an engine.

    `prompts` renders, `parse` reads the answers, and `baseline` answers the same prompts by
    rules, without a model, in the very schema that a model fills: the engine `Rules`. A bad
    answer is asked for again `again` times, with its fault shown to the model.
    """

    engine: Engine = field(default_factory=Rules)
    again: int = 1

    prompt_files: ClassVar[tuple[Path, ...]] = ()
    auxiliary: ClassVar[bool] = False
    """Whether a pipeline goes on with a row that this step rejects, and the columns as they are:
    empty, or what the step gave in place of an answer. The trace then says what was lost."""

    @property
    def off(self) -> bool:
        """Whether the step does nothing here, since rules cannot do its work."""
        return False

    @abc.abstractmethod
    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render the prompts of a batch; a row may have none, one or several."""

    @abc.abstractmethod
    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Answer each prompt by rules: one JSON text a prompt, in its schema."""

    @abc.abstractmethod
    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Take the answers over; one that is a fault rejects its row and no other."""

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Judge an answer that fits its schema: nonsense, quotes that are nowhere, and the like.

        The fault is shown to the model, once more asked. An answer with such a fault is still
        handed to `parse` when no better one comes.
        """
        return None

    def open(self, at: Place) -> Function:
        """Bind the engine; raises ValueError if the place has no client of it."""
        return OpenedLLMStep(self, at.client(self.engine))

    def identity(self) -> dict[str, Any]:
        """The sha256 of each prompt file."""
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in self.prompt_files
        }


@dataclass(frozen=True)
class OpenedLLMStep:
    """An opened LLMStep: renders, asks, parses. Without a client it answers by rules."""

    step: LLMStep
    client: Client | None

    def __call__(self, batch: pa.Table) -> pa.Table:
        """All prompts of a batch are asked together."""
        prompts = self.step.prompts(batch)
        return self.step.parse(batch, prompts, self.answer(batch, prompts))

    def answer(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[Completion]:
        """Answer the prompts of a batch by the client, or by the baseline."""
        if self.client is not None:

            def check(prompt: Prompt, value: Any) -> Fault | None:
                return self.step.check(batch, prompt, value)

            return ask(self.client, prompts, check, self.step.again)
        texts = self.step.baseline(batch, prompts) if prompts else []
        return [read(text, prompt.schema) for text, prompt in zip(texts, prompts, strict=True)]


@dataclass(frozen=True)
class PreviousVersion:
    """The version of a build before this one: its folder, and the input parts they share."""

    folder: Path
    kept: frozenset[Path]


@dataclass(frozen=True, kw_only=True)
class Build(abc.ABC):
    """Work on a whole relation: merging, indexes, communities. It fixes row order and seed.

    `build` reads parts and writes files into an empty folder; it returns its figures. `files`
    lists the outputs, each a file name, for the manifest's hashes.
    """

    version: ClassVar[int] = 1
    remembers: ClassVar[bool] = False
    """Whether an update goes on from the version before, which is then one of its inputs."""

    @abc.abstractmethod
    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Read the parts of the input stages, in the order given, and write into `out`."""

    def update(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place, former: PreviousVersion
    ) -> dict[str, float | int | str]:
        """Write the files of `build`, from the version before and what changed since.

        They are the very same, unless the build `remembers`.
        """
        return self.build(inputs, out, at)

    def identity(self) -> dict[str, Any]:
        """What defines the output beside the fields."""
        return {}
