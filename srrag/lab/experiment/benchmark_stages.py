"""Run the steps of a benchmark over parts of a table, or count what they would ask."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from srrag.core.step import Place, Step
from srrag.lab.experiment.running import Running
from srrag.lab.experiment.table_stages import run_stages
from srrag.llm.completion import Engine, Usage
from srrag.runner.engines import log_folder
from srrag.runner.estimate import (
    RULES_ASK_NOTHING,
    CountingClient,
    counting_clients,
    figures_of,
)
from srrag.runner.part import live
from srrag.runner.pipeline_run import PipelineRun
from srrag.runner.summary import usage_of
from srrag.runner.sweep import Sweep
from srrag.storage.store import Store


class Stages(Protocol):
    """Runs the steps of a benchmark over tables."""

    def run(self, source: str, table: pa.Table, steps: Mapping[str, Step]) -> dict[str, pa.Table]:
        """Chain the steps; return the output of each, rejected rows included."""
        ...

    def rank(self, rankings: Mapping[str, PipelineRun], questions: pa.Table) -> list[pa.Table]:
        """Return the questions with ranked windows, one table for each ranking."""
        ...


@dataclass
class Standing:
    """Stages in the store of a benchmark, which reuse the parts that exist."""

    store: Store
    running: Running
    usage: dict[str, Usage] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path, running: Running) -> Standing:
        """Open the store in a folder of the root that `forget` deletes as a whole."""
        store = Store(root / "jobs" / "benchmark")
        store.root.mkdir(parents=True, exist_ok=True)
        store.create()
        return cls(store, running)

    def run(self, source: str, table: pa.Table, steps: Mapping[str, Step]) -> dict[str, pa.Table]:
        """Run the steps on the missing parts."""
        reads = dict(zip(steps, [source, *steps], strict=False))
        staged = run_stages(self.store, self.running, source, table, steps, reads)
        for name, each in staged.items():
            if any(receipt.usage for receipt in each.receipts):
                self.usage.setdefault(name, Usage()).add(usage_of(each.receipts))
            took = sum(receipt.seconds for receipt in each.receipts)
            self.seconds[name] = round(self.seconds.get(name, 0.0) + took, 3)
        return {name: each.table for name, each in staged.items()}

    def rank(self, rankings: Mapping[str, PipelineRun], questions: pa.Table) -> list[pa.Table]:
        """Rank the questions that have no ranking yet; shared stages run once."""
        started = time.perf_counter()
        bound = list(rankings.values())
        sweep = Sweep(
            bound[0].store,
            bound[0].build,
            tuple(each.pipeline for each in bound),
            bound[0].runner,
            bound[0].resources,
        )
        sweep.run(questions, self.running.place)
        for number, name in enumerate(rankings):
            if (usage := sweep.usage(number, questions)) != Usage():
                self.usage[f"ranking {name}"] = usage
        self.seconds["ranking"] = round(time.perf_counter() - started, 3)
        return [sweep.table(number, questions) for number in range(len(bound))]


@dataclass
class Counted:
    """A dry run: counts the calls that no log answers, lets the rules answer, writes nothing."""

    at: Place
    counting: dict[str, dict[Engine, CountingClient]] = field(default_factory=dict)

    def run(self, source: str, table: pa.Table, steps: Mapping[str, Step]) -> dict[str, pa.Table]:
        """Render the prompts and count them."""
        made = {}
        log = log_folder(self.at)
        for name, step in steps.items():
            clients = self.counting.get(name) or counting_clients([step], log, set())
            if clients:
                self.counting[name] = clients
            table = step.open(replace(self.at, clients=clients))(live(table))
            made[name] = table = table.select(step.writes.names)
        return made

    def rank(self, rankings: Mapping[str, PipelineRun], questions: pa.Table) -> list[pa.Table]:
        """Rank in this process."""
        return [each.pipeline.open(each.place(self.at))(questions) for each in rankings.values()]

    def told(self, counts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the estimate with the counts of the stages; ValueError if nothing is asked."""
        if not self.counting:
            raise ValueError(RULES_ASK_NOTHING)
        figures = figures_of(self.counting, counts["sampled"])
        windows = figures.pop("documents")
        return {**figures, "windows": windows, "not_counted": [], "counts": counts}
