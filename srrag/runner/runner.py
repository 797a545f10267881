"""What runs the steps of a plan: in this process, or on Ray."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from srrag.engine.model import Model
from srrag.runner.engines import Engines
from srrag.stage import Plan
from srrag.step import Place
from srrag.store import Store


class Runner(Protocol):
    """A way to run steps on named parts, and to have engines up."""

    def run(self, plan: Plan, store: Store, parts: Sequence[str], at: Place) -> None:
        """Run each stage on the parts that it lacks."""
        ...

    def engines(self, models: Sequence[Model], at: Place) -> AbstractContextManager[Engines]:
        """Have engines up, for what is not a step on parts."""
        ...
