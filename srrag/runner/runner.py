"""What runs the steps of a plan: in this process, or on Ray."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from srrag.engine.base import Model
from srrag.runner.engines import Engines, engines_of
from srrag.stage import Plan, Stage
from srrag.step import ParallelMap, Place
from srrag.storage.store import Store


def at_once(stages: Sequence[Stage]) -> list[list[Stage]]:
    """Stages in their order, in groups that run together: neighbours that ask models.

    So the engines of several configurations work at the same time. No stage of a group reads
    another's output.
    """
    groups: list[list[Stage]] = []
    for stage in stages:
        before = groups[-1] if groups else []
        apart = not before or not engines_of([stage.step]) or not engines_of([before[0].step])
        if apart or stage.inputs[0] in {each.name for each in before}:
            groups.append([])
        groups[-1].append(stage)
    return groups


class Runner(Protocol):
    """A way to run steps on named parts, and to have engines up."""

    def run(self, plan: Plan, store: Store, parts: Sequence[str], at: Place) -> None:
        """Run each stage on the parts that it lacks."""
        ...

    def session(self) -> AbstractContextManager[None]:
        """Keep what several runs need up between them."""
        ...

    def spread(self, gpus: float = 0.0) -> AbstractContextManager[ParallelMap | None]:
        """Where builds may do what is too much for this process, if anywhere; GPUs are a call's."""
        ...

    def engines(self, models: Sequence[Model], at: Place) -> AbstractContextManager[Engines]:
        """Have engines up, for what is not a step on parts."""
        ...
