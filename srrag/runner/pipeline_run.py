"""Run a pipeline over many questions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from srrag.core.pipeline import Pipeline, bind
from srrag.core.spec import canonical, spec
from srrag.core.step import Place, within
from srrag.llm.completion import Usage
from srrag.runner.runner import Runner
from srrag.runner.shared_prefix_plan import Resourcing
from srrag.runner.sweep import Sweep, default_resources
from srrag.storage.atomic_write import read_json
from srrag.storage.store import Store

DEFAULT = "hybrid_maxsim"
"""The pipeline of a question that names none."""


@dataclass(frozen=True)
class PipelineRun:
    """A pipeline on the artifacts of one finished build."""

    store: Store
    build: str
    pipeline: Pipeline
    runner: Runner
    resources: Resourcing = default_resources

    @cached_property
    def alone(self) -> Sweep:
        """Return the sweep of this one pipeline."""
        return Sweep(self.store, self.build, (self.pipeline,), self.runner, self.resources)

    def place(self, at: Place) -> Place:
        """Bind the artifacts; raises ValueError if the pipeline needs a stage that is not built."""
        return bind(self.store, self.build, self.pipeline.needs(), at)

    def run(self, questions: pa.Table, at: Place) -> pa.Table:
        """Answer the questions that lack an answer; returns all rows in the given order."""
        self.alone.run(questions, at)
        return self.alone.table(0, questions)

    def usage(self, questions: pa.Table) -> Usage:
        """Return the usage of answering these questions, in this run and earlier ones."""
        return self.alone.usage(0, questions)


def check_pipeline(store: Store, build: str, pipeline: Pipeline) -> None:
    """Raise ValueError if a step encodes questions unlike the build encoded what it searches."""
    for step in within(pipeline):
        encoder = getattr(step, "encoder", None)
        if encoder is not None:
            check_encoder(store, build, spec(encoder), getattr(step, "encoded", "vectors"))


def check_encoder(
    store: Store, build: str, encoder: dict[str, Any], stage: str = "vectors"
) -> None:
    """Raise ValueError if the encoder differs from that of the windows in a stage."""
    entry = store.read_pointer(build)["stages"].get(stage)
    if entry is None:
        return
    manifest = read_json(store.stage_dir(stage, entry["fingerprint"]) / "manifest.json")
    built = manifest["spec"].get("encoder", {})
    if canonical(_fields(built)) != canonical(_fields(encoder)):
        raise ValueError(
            f"embedder: the questions' is {canonical(_fields(encoder))}, "
            f"the build's is {canonical(_fields(built))}"
        )


def _fields(encoder: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in encoder.items() if not key.startswith("_")}
