"""The abstractions that carry everything: Step, LLMStep and Build."""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pydantic

Function = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class Prompt:
    """One call to a language model.

    `row` is the row of the batch that it belongs to, `slot` tells several prompts of a row apart,
    `schema` is the model of the answer: it guides the decoding and parses the text.
    """

    row: int
    slot: str
    system: str
    user: str
    schema: type[pydantic.BaseModel]


class Engine(Protocol):
    """A client of a language model; `name` is its identity (model and revision)."""

    name: str

    def complete(self, prompts: Sequence[Prompt]) -> list[str]:
        """Return one text a prompt, in order."""
        ...


@dataclass(frozen=True)
class Place:
    """Where a step runs: nothing here is part of its identity.

    `artifacts` maps the name of a stage to the folder of its output, `root` is the artifact
    folder itself, `threads` bounds the CPU threads of one worker, `engines` maps an engine's
    name to its client.
    """

    artifacts: Mapping[str, Path] = field(default_factory=dict)
    root: Path | None = None
    device: str = "cpu"
    threads: int = 1
    engines: Mapping[str, Engine] = field(default_factory=dict)

    def artifact(self, stage: str) -> Path:
        """Return the folder of a stage's output; raises ValueError naming the stage."""
        if stage not in self.artifacts:
            built = ", ".join(sorted(self.artifacts)) or "nothing"
            raise ValueError(f"stage {stage!r} is not built here; the root holds {built}")
        return Path(self.artifacts[stage])


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


@dataclass(frozen=True, kw_only=True)
class LLMStep(Step):
    """A Step made of pure halves around an engine.

    `prompts` renders, `parse` reads the answers, and `baseline` answers the same prompts by
    rules, without a model, in the very schema that a model fills: the engine `rules`.
    """

    engine: str = "rules"

    prompt_files: ClassVar[tuple[Path, ...]] = ()

    @abc.abstractmethod
    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render the prompts of a batch; a row may have none, one or several."""

    @abc.abstractmethod
    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Answer each prompt by rules: one JSON text a prompt, in its schema."""

    @abc.abstractmethod
    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[str]
    ) -> pa.Table:
        """Read the answers; a bad one rejects its row and no other."""

    def open(self, at: Place) -> Function:
        """Bind the engine; raises ValueError if the place has no client of that name."""
        answer = self._answerer(at)

        def run(batch: pa.Table) -> pa.Table:
            prompts = self.prompts(batch)
            return self.parse(batch, prompts, answer(batch, prompts))

        return run

    def _answerer(self, at: Place) -> Callable[[pa.Table, Sequence[Prompt]], list[str]]:
        if self.engine == "rules":
            return self.baseline
        if self.engine not in at.engines:
            raise ValueError(f"engine {self.engine!r} is not configured; no other is used for it")
        client = at.engines[self.engine]
        return lambda batch, prompts: client.complete(prompts) if prompts else []

    def identity(self) -> dict[str, Any]:
        """The sha256 of each prompt file."""
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in self.prompt_files
        }


@dataclass(frozen=True, kw_only=True)
class Build(abc.ABC):
    """Work on a whole relation: merging, indexes, communities. It fixes row order and seed.

    `build` reads parts and writes files into an empty folder; it returns its figures. `files`
    lists the outputs, each a file name, for the manifest's hashes.
    """

    version: ClassVar[int] = 1

    @abc.abstractmethod
    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Read the parts of the input stages, in the order given, and write into `out`."""

    def identity(self) -> dict[str, Any]:
        """What defines the output beside the fields."""
        return {}
