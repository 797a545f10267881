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
    encoding = [step for step in within(pipeline) if getattr(step, "encoder", None) is not None]
    stages = store.read_pointer(build)["stages"] if encoding else {}
    for step in encoding:
        stage = getattr(step, "encoded", "vectors")
        if stage not in stages:
            continue
        folder = store.stage_dir(stage, stages[stage]["fingerprint"])
        built = read_json(folder / "manifest.json")["spec"].get("encoder", {})
        asks, has = (_canonical(each) for each in (spec(step.encoder), built))  # type: ignore[attr-defined]
        if asks != has:
            raise ValueError(f"embedder: the questions' is {asks}, the build's is {has}")


def _canonical(encoder: dict[str, Any]) -> str:
    return canonical({key: value for key, value in encoder.items() if not key.startswith("_")})
