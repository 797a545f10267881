"""Where the stages of an experiment run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from srrag.config import factory
from srrag.core.pipeline import Pipeline
from srrag.core.stage import Resources
from srrag.core.step import Place
from srrag.runner.pipeline_run import PipelineRun
from srrag.runner.runner import Runner


@dataclass(frozen=True)
class Running:
    """Where stages run, and with which resources."""

    runner: Runner
    resources: Callable[[str, Any], Resources]
    place: Place

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Running:
        """Make it of the profile of a configuration; raises UsageError."""
        resources = partial(factory.resources, config)
        return cls(factory.runner(config), resources, factory.place(config))

    def bound(self, root: str | None, build: str, pipeline: Pipeline) -> PipelineRun:
        """Bind a pipeline to a build of a root, as `factory.bound` does."""
        return factory.bound(root, build, pipeline, self.runner, self.resources)
