"""Run many pipelines over the same questions, in parts, resumable like any stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from srrag.core.pipeline import Pipeline, bind
from srrag.core.schema import QUESTIONS
from srrag.core.stage import Resources, Stage
from srrag.core.step import Place, Step
from srrag.llm.completion import AnswersAwaited, Usage, one_line
from srrag.runner.ingest import part_names, write_source
from srrag.runner.progress import say
from srrag.runner.runner import Runner
from srrag.runner.shared_prefix_plan import SOURCE, Resourcing, SegmentPlan
from srrag.runner.summary import usage_of
from srrag.storage.store import Receipt, Store

PART_QUESTIONS = 64


def default_resources(kind: str, step: Step) -> Resources:
    """Return the default resources, the same for every stage."""
    return Resources()


@dataclass(frozen=True)
class Sweep:
    """Pipelines on the artifacts of one finished build; a step that they share runs once."""

    store: Store
    build: str
    pipelines: tuple[Pipeline, ...]
    runner: Runner
    resources: Resourcing = default_resources

    @cached_property
    def plan(self) -> SegmentPlan:
        """Return the plan; a stage's identity includes that of every artifact it reads."""
        needs = {name for pipeline in self.pipelines for name in pipeline.needs()}
        used = self.store.contents(self.build, needs)
        return SegmentPlan(self.pipelines, used, self.resources)

    def place(self, at: Place) -> Place:
        """Bind the artifacts; raises ValueError if a pipeline needs a stage that is not built."""
        needs = (name for pipeline in self.pipelines for name in pipeline.needs())
        return bind(self.store, self.build, needs, at)

    def run(self, questions: pa.Table, at: Place) -> None:
        """Run the missing stages of all pipelines together."""
        if questions.num_rows == 0:
            raise ValueError("there is no question")
        at = self.place(at)
        source, asked = self.plan.fingerprint(SOURCE), questions.cast(QUESTIONS)
        parts = write_source(self.store, SOURCE, source, asked, PART_QUESTIONS)
        self.runner.run(self.plan, self.store, list(dict.fromkeys(parts)), at)

    def run_each(self, questions: pa.Table, at: Place) -> dict[int, str]:
        """Run the missing stages; a pipeline that fails does not stop the others.

        Returns the reason for each failed pipeline, by its number.
        """
        try:
            self.run(questions, at)
            return {}
        except AnswersAwaited:
            raise
        except Exception as error:
            say(f"{one_line(error)}; each configuration is now run alone")
        at, parts = self.place(at), list(dict.fromkeys(self.parts(questions)))
        failed: dict[int, str] = {}
        broken: dict[str, str] = {}
        for number, path in enumerate(self.plan.paths):
            known = next((broken[name] for name in path if name in broken), None)
            if known is None:
                try:
                    self.runner.run(self.plan.only(path), self.store, parts, at)
                    continue
                except AnswersAwaited:
                    raise
                except Exception as error:
                    known = one_line(error)
                    broken[next(name for name in path if self._lacks(name, parts))] = known
            failed[number] = known
        return failed

    def _lacks(self, stage: str, parts: Sequence[str]) -> bool:
        return not set(parts) <= self.store.parts(stage, self.plan.fingerprint(stage))

    def table(self, number: int, questions: pa.Table) -> pa.Table:
        """Return the output of a pipeline, one row a question, in the order of the questions.

        The later columns of a rejected row are empty. Rows are matched by id and text, because a
        stage with another cut may also hold rows that were rejected here.
        """
        segment, parts = self.pipelines[number].whole, self.parts(questions)
        tables = [questions]
        for stage in self.plan.paths[number]:
            fingerprint = self.plan.fingerprint(stage)
            read = (self.store.read_part(stage, fingerprint, part) for part in dict.fromkeys(parts))
            tables.append(pa.concat_tables(read))
        last: dict[tuple[str, str], tuple[int, int]] = {}
        for at, table in enumerate(tables):
            last |= {key: (at, row) for row, key in enumerate(_keys(table))}
        places = np.array([last[key] for key in _keys(questions)])
        kept, order = [], []
        for at, table in enumerate(tables):
            here = np.flatnonzero(places[:, 0] == at)
            kept.append(segment.filled(table.take(pa.array(places[here, 1]))))
            order.append(here)
        return pa.concat_tables(kept).take(pa.array(np.argsort(np.concatenate(order))))

    def stands(self, number: int, questions: pa.Table) -> bool:
        """Whether a pipeline is finished."""
        parts = self.parts(questions)
        return not any(self._lacks(stage, parts) for stage in self.plan.paths[number])

    def receipts(self, number: int, questions: pa.Table) -> list[tuple[Stage, list[Receipt]]]:
        """Return the receipts of each stage of a pipeline, shared stages included."""
        parts = dict.fromkeys(self.parts(questions))
        path = (stage for stage in self.plan.steps if stage.name in self.plan.paths[number])
        return [
            (stage, self.store.receipts(stage.name, self.plan.fingerprint(stage.name), parts))
            for stage in path
        ]

    def usage(self, number: int, questions: pa.Table) -> Usage:
        """Return the usage of answering these questions, in this run and earlier ones."""
        receipts = self.receipts(number, questions)
        return usage_of(receipt for _, listed in receipts for receipt in listed)

    @staticmethod
    def parts(questions: pa.Table) -> list[str]:
        """Return the names of the parts of the questions."""
        return part_names(questions, PART_QUESTIONS)


def _keys(table: pa.Table) -> Iterator[tuple[str, str]]:
    return zip(table["query_id"].to_pylist(), table["text"].to_pylist(), strict=True)
