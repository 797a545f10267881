"""The core abstractions: Step, LLMStep and Build."""

from __future__ import annotations

import abc
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pyarrow as pa

from srrag.core.provenance import Fitted
from srrag.llm.completion import (
    Account,
    Client,
    Completion,
    DryClient,
    Engine,
    Fault,
    Prompt,
    Rules,
)
from srrag.llm.read_answer import read
from srrag.llm.retry_invalid import ask
from srrag.storage.manifest import check_files
from srrag.storage.mirror import store_at

if TYPE_CHECKING:
    from srrag.core.pipeline import Pipeline


Function = Callable[[pa.Table], pa.Table]
Kind = TypeVar("Kind")

OPTIONAL = frozenset(["standing"])
"""Stages that builds of older versions lack: a step that needs one runs without it and says so."""


ParallelMap = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Calls a function on each item, on any node that sees the root; returns the values in order."""


@dataclass(frozen=True)
class Place:
    """Where a step runs; nothing here is part of its identity.

    `artifacts` maps the name of a stage to the folder of its output, `root` is the artifact folder
    itself, `threads` bounds the CPU threads of one worker, `clients` maps each engine to its
    client, `account` holds the spending limits for calls, and `spread` lets a build distribute work
    over other machines; without it, the build runs in this process.
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
        if store_at(folder):  # files on local disk were checked when the artifacts were bound
            check_files(folder)
        return folder

    def client(self, engine: Engine) -> Client | None:
        """Return the client of an engine, None for the rules; raises ValueError if it is not up."""
        if isinstance(engine, Rules):
            return None
        if engine not in self.clients:
            raise ValueError(f"engine {engine.name!r} is not up; no other is used for it")
        return self.clients[engine]


@dataclass(frozen=True, kw_only=True)
class Step(abc.ABC):
    """A map from one Arrow table to another; its fields are its configuration.

    A row's output depends only on that row, the fields and the opened artifacts, never on its
    neighbours: f(a + b) == f(a) + f(b), exactly except for floats, which agree within `atol`.
    Runners may therefore batch, split and retry. Bump `version` when the output changes.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[pa.Schema]
    keeps_rows: ClassVar[bool] = True
    """One row out for each row in, in order; False for steps that expand rows."""
    revises: ClassVar[tuple[str, ...]] = ()
    """Columns of earlier steps that this step replaces, such as unsupported parts of an answer."""
    atol: ClassVar[float] = 1e-5
    packed: ClassVar[Mapping[str, tuple[str, float]]] = {}
    """Binary columns that hold arrays of floats: their NumPy type and tolerance."""

    @abc.abstractmethod
    def open(self, at: Place) -> Function:
        """Load models and indexes, once a worker, and return the function on tables."""

    def needs(self) -> tuple[str, ...]:
        """Names of the stages whose artifacts `open` reads."""
        return ()

    def identity(self) -> dict[str, Any]:
        """What determines the output besides the fields, such as the content of prompt files."""
        return {}

    def fitted(self) -> tuple[Fitted, ...]:
        """What the learned parts of this step were fitted on; empty if it has none."""
        return ()

    def __rshift__(self, other: Step) -> Pipeline:
        """Chain two steps or pipelines; see srrag.core.pipeline.chained."""
        from srrag.core.pipeline import chained

        return chained(self, other)


@dataclass(frozen=True, kw_only=True)
class StepWrapper(Step):
    """A Step that opens another Step in its own way, and is that Step in all else.

    Wrappers exist only while a pipeline runs: no configuration names one, and no identity has one.
    """

    step: Step

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the step reads."""
        return self.step.reads

    @property
    def writes(self) -> pa.Schema:
        """What the step writes."""
        return self.step.writes

    @property
    def keeps_rows(self) -> bool:  # type: ignore[override]
        """Whether the step keeps rows."""
        return self.step.keeps_rows

    @property
    def revises(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the step revises."""
        return self.step.revises

    def needs(self) -> tuple[str, ...]:
        """What the step needs."""
        return self.step.needs()

    def identity(self) -> dict[str, Any]:
        """The identity of the step."""
        return self.step.identity()


def bare(step: Step) -> Step:
    """Return the step inside all wrappers."""
    while isinstance(step, StepWrapper):
        step = step.step
    return step


def within(item: Any) -> Iterator[Step]:
    """Yield a step and the steps nested in it, depth first; also takes lists and mappings."""
    return instances(item, Step)  # type: ignore[type-abstract]


def instances(item: Any, kind: type[Kind]) -> Iterator[Kind]:
    """Yield the objects of a class in a step, and in the steps nested in it, depth first."""
    if isinstance(item, kind):
        yield item
    if isinstance(item, Mapping):
        item = tuple(item.values())
    if isinstance(item, (tuple, list)):
        for each in item:
            yield from instances(each, kind)
    elif is_dataclass(item):
        for each in fields(item):
            yield from instances(getattr(item, each.name), kind)


@dataclass(frozen=True, kw_only=True)
class LLMStep(Step):
    """A Step that asks a language model, as pure functions before and after the call.

    `prompts` renders the prompts and `parse` reads the answers. `baseline` answers the same prompts
    by rules in the same schema, for the engine `Rules`. A faulty answer is retried `again` times;
    the retry shows the fault to the model.
    """

    engine: Engine = field(default_factory=Rules)
    again: int = 1

    prompt_files: ClassVar[tuple[Path, ...]] = ()
    auxiliary: ClassVar[bool] = False
    """Whether a pipeline keeps the rows that this step rejects, with the step's columns unchanged:
    empty, or its substitute for an answer. The trace then records the loss."""

    @property
    def off(self) -> bool:
        """Whether the step does nothing because the rules cannot do its work."""
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
        """Read the answers into a table; a faulty answer rejects its own row only."""

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Return the fault of an answer that fits its schema, such as a quote from nowhere.

        The retry shows the fault to the model. `parse` receives the faulty answer if no retry is
        better.
        """
        return None

    def open(self, at: Place) -> Function:
        """Bind the engine; raises ValueError if the place has no client for it."""
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
        """Ask all prompts of a batch together and parse the answers."""
        prompts = self.step.prompts(batch)
        return self.step.parse(batch, prompts, self.answer(batch, prompts))

    def answer(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[Completion]:
        """Answer the prompts of a batch with the client, or with the rules if there is none."""
        if self.client is not None:

            def check(prompt: Prompt, value: Any) -> Fault | None:
                return self.step.check(batch, prompt, value)

            answers = ask(self.client, prompts, check, self.step.again)
            if not isinstance(self.client, DryClient):
                return answers
            return self.client.stand_in(prompts, answers, self._by_rules(batch, prompts))
        texts = self._by_rules(batch, prompts)
        return [read(text, prompt.schema) for text, prompt in zip(texts, prompts, strict=True)]

    def _by_rules(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        return self.step.baseline(batch, prompts) if prompts else []


Inputs = Mapping[str, Sequence[Path]]
"""The parts of each input stage of a build, in order; of another build its one folder."""
Figures = dict[str, float | int | str]


@dataclass(frozen=True)
class PreviousVersion:
    """The previous version of a build: its folder, and the input parts that both versions share."""

    folder: Path
    kept: frozenset[Path]


@dataclass(frozen=True, kw_only=True)
class Build(abc.ABC):
    """An operation on whole relations: merging, indexing, community detection.

    It fixes row order and random seed. `build` reads parts, writes files into an empty folder and
    returns figures; the manifest records the hash of each file.
    """

    version: ClassVar[int] = 1
    remembers: ClassVar[bool] = False
    """Whether an update continues the previous version, which is then one of its inputs."""

    @abc.abstractmethod
    def build(self, inputs: Inputs, out: Path, at: Place) -> Figures:
        """Read the parts of the input stages, in order, write into `out` and return figures."""

    def update(self, inputs: Inputs, out: Path, at: Place, former: PreviousVersion) -> Figures:
        """Write what `build` writes from the previous version and the parts that changed.

        They give the same answers as the files of `build`, unless the build `remembers`.
        """
        return self.build(inputs, out, at)

    def identity(self) -> dict[str, Any]:
        """What determines the output besides the fields."""
        return {}


@dataclass(frozen=True, kw_only=True)
class IncrementalBuild(Build):
    """A build that writes its files in one way, with or without a previous version of them."""

    def build(self, inputs: Inputs, out: Path, at: Place) -> Figures:
        """Write all from nothing."""
        return self.write(inputs, out, at, None)

    def update(self, inputs: Inputs, out: Path, at: Place, former: PreviousVersion) -> Figures:
        """Take what stands from the previous version, and write the rest."""
        return self.write(inputs, out, at, former)

    @abc.abstractmethod
    def write(
        self, inputs: Inputs, out: Path, at: Place, former: PreviousVersion | None
    ) -> Figures:
        """Write the files of `build`, with what still stands in the former version, if any."""


_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def usable_cpus(quota: Path = _QUOTA) -> int:
    """The processors of this process, at least 1: the least of affinity, quota and OMP_NUM_THREADS.

    A container with 2 of a machine's 64 processors has 2; threads beyond them only wait.
    """
    affine = hasattr(os, "sched_getaffinity")  # Linux alone has it
    counts = [len(os.sched_getaffinity(0)) if affine else os.cpu_count() or 1]
    with suppress(OSError, ValueError):
        granted, period = quota.read_text("ascii").split()[:2]  # "200000 100000", or "max 100000"
        counts.append(int(granted) // int(period))
    with suppress(KeyError, ValueError):
        counts.append(int(os.environ["OMP_NUM_THREADS"]))
    return max(1, min(counts))
