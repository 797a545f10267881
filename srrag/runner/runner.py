"""The interface of runners, which run the steps of a plan in this process or on Ray."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from srrag.core.stage import Plan, Stage
from srrag.core.step import ParallelMap, Place
from srrag.engine.base import Model
from srrag.runner.engines import Engines, engines_of
from srrag.storage.store import Store


def at_once(stages: Sequence[Stage]) -> list[list[Stage]]:
    """Group stages in order: neighbours that ask models run together.

    The engines of several configurations then work at the same time. No stage of a group reads the
    output of another.
    """
    groups: list[list[Stage]] = []
    for stage in stages:
        before = groups[-1] if groups else []
        apart = not before or not engines_of([stage.step]) or not engines_of([before[0].step])
        if apart or stage.inputs[0] in {each.name for each in before}:
            groups.append([])
        groups[-1].append(stage)
    return groups


def lacking(plan: Plan, store: Store, parts: Sequence[str]) -> dict[str, list[str]]:
    """Return the parts that each stage lacks, in order, by stage; whole stages are left out."""
    found: dict[str, list[str]] = {}
    for stage in plan.steps:
        standing = store.parts(stage.name, plan.fingerprint(stage.name))
        if missing := [part for part in parts if part not in standing]:
            found[stage.name] = missing
    return found


class Runner(Protocol):
    """Runs steps on named parts, and runs engines."""

    def run(self, plan: Plan, store: Store, parts: Sequence[str], at: Place) -> None:
        """Run each stage on the parts that it lacks."""
        ...

    def session(self) -> AbstractContextManager[None]:
        """Keep shared resources, such as Ray, up between several runs."""
        ...

    def spread(self, gpus: float = 0.0) -> AbstractContextManager[ParallelMap | None]:
        """Return the parallel map for builds, if any; `gpus` is the number of GPUs of a call."""
        ...

    def engines(self, models: Sequence[Model], at: Place) -> AbstractContextManager[Engines]:
        """Run engines for work other than steps on parts."""
        ...
