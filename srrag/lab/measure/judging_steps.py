"""The steps of evaluation: a Preparation fills CASES, a Judge or a Measure makes JUDGEMENTS."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from srrag.algo import entailment
from srrag.core.provenance import Fitted, packaged_fit
from srrag.core.rows import with_columns
from srrag.core.step import Function, LLMStep, Place, Step
from srrag.lab.measure.judgements import CASES, JUDGEMENTS, Case, Judgement, Metric
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile, Rules
from srrag.llm.fields import most_tokens


@dataclass(frozen=True, kw_only=True)
class _Asking(LLMStep):
    """A step that may answer by the rules of `entailment` instead of a model."""

    def identity(self) -> dict[str, Any]:
        """Identify the step by its prompt, and by the rules if they answer."""
        rules = {"entailment": entailment.VERSION} if isinstance(self.engine, Rules) else {}
        return {**super().identity(), **rules}

    def fitted(self) -> tuple[Fitted, ...]:
        """The questions that the rules were tuned on; those of a model are unknown here."""
        if not isinstance(self.engine, Rules):
            return ()
        return (packaged_fit("srrag.lab.judges", "rules.json", "rules that judge"),)

    def _cases(self, batch: pa.Table) -> list[Case]:
        cases: list[Case] = batch.select(self.reads).to_pylist()
        return cases


@dataclass(frozen=True, kw_only=True)
class Judge(_Asking):
    """Asks a model one or more questions about each case and turns the answers into judgements."""

    keeps_rows: ClassVar[bool] = False
    writes: ClassVar[pa.Schema] = JUDGEMENTS
    metrics: ClassVar[tuple[Metric, ...]]
    schema: ClassVar[type[Answer]]

    @property
    def sampling(self) -> tuple[int, float]:
        """How many samples each prompt gets, and the temperature."""
        return 1, 0.0

    @abc.abstractmethod
    def asks(self, case: Case) -> list[tuple[str, str]]:
        """Return system and user text of each prompt on a case; empty if there is none to ask."""

    @abc.abstractmethod
    def rule(self, case: Case, number: int) -> Answer:
        """Answer the n-th prompt of a case by rules."""

    @abc.abstractmethod
    def judge(self, case: Case, answers: Sequence[Completion]) -> Iterable[Judgement]:
        """Make the judgements of a case from the completions, one (or a fault) for each sample."""

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render all prompts for a batch of CASES."""
        draws, heat = self.sampling
        return [
            Prompt(row, str(number), *texts, self.schema, heat, most_tokens(self.schema), draw)
            for row, case in enumerate(self._cases(batch))
            for number, texts in enumerate(self.asks(case))
            for draw in range(draws)
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Answer by rules."""
        cases = self._cases(batch)
        return [self.rule(cases[p.row], int(p.slot)).model_dump_json() for p in prompts]

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Return the JUDGEMENTS of all cases in their order."""
        given: dict[int, list[Completion]] = {}
        for prompt, completion in zip(prompts, completions, strict=True):
            given.setdefault(prompt.row, []).append(completion)
        rows = [
            judgement
            for row, case in enumerate(self._cases(batch))
            for judgement in self.judge(case, given.get(row, []))
        ]
        return pa.Table.from_pylist(rows, schema=JUDGEMENTS)


@dataclass(frozen=True, kw_only=True)
class Measure(Step):
    """Computes judgements from a case alone, without a model."""

    keeps_rows: ClassVar[bool] = False
    writes: ClassVar[pa.Schema] = JUDGEMENTS
    metrics: ClassVar[tuple[Metric, ...]]

    @abc.abstractmethod
    def measure(self, case: Case) -> Iterable[Judgement]:
        """Compute the judgements of a case."""

    def open(self, at: Place) -> Function:
        """Load nothing."""
        return judging(self, self.measure)


def judging(step: Step, measure: Callable[[Case], Iterable[Judgement]]) -> Function:
    """The function of a step that makes the judgements of each case by itself."""

    def run(batch: pa.Table) -> pa.Table:
        cases: list[Case] = batch.select(step.reads).to_pylist()
        rows = [judgement for case in cases for judgement in measure(case)]
        return pa.Table.from_pylist(rows, schema=JUDGEMENTS)

    return run


@dataclass(frozen=True, kw_only=True)
class Preparation(_Asking):
    """Prepares cases for judges by filling columns of CASES, with at most one call a case."""

    writes: ClassVar[pa.Schema] = CASES
    fills: ClassVar[tuple[str, ...]]
    file: ClassVar[PromptFile]
    """The prompt; its schema is that of the answer."""

    @abc.abstractmethod
    def user(self, case: Case) -> str | None:
        """Return the user text of the prompt on a case; None if there is nothing to ask."""

    @abc.abstractmethod
    def rule(self, case: Case) -> Answer:
        """Answer the prompt of a case by rules."""

    @abc.abstractmethod
    def take(self, case: Case, said: Any, lost: str) -> dict[str, Any]:
        """Return the columns of a case from its answer.

        Without one `said` is None, and `lost` the kind of its fault, "" if nothing was asked. What
        an answer lacks is lost as "incomplete".
        """

    def lacks(self, case: Case, said: Any) -> Fault | None:
        """Return the fault of an answer that fits its schema."""
        return None

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """A prompt for each case with something to ask."""
        schema = self.file.schema
        assert schema is not None
        system = self.file.system()
        return [
            Prompt(row, "", system, user, schema, max_tokens=most_tokens(schema))
            for row, case in enumerate(self._cases(batch))
            if (user := self.user(case)) is not None
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Answer by rules."""
        cases = self._cases(batch)
        return [self.rule(cases[prompt.row]).model_dump_json() for prompt in prompts]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """What `lacks` says."""
        (case,) = self._cases(batch.slice(prompt.row, 1))
        return self.lacks(case, value)

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Fill the columns of each case."""
        given = {p.row: each for p, each in zip(prompts, completions, strict=True)}
        columns: dict[str, list[Any]] = {name: [] for name in self.fills}
        for row, case in enumerate(self._cases(batch)):
            completion = given.get(row, Completion())
            lost = completion.fault.kind if completion.fault else ""
            for name, value in self.take(case, completion.value, lost).items():
                columns[name].append(value)
        schema = pa.schema([CASES.field(name) for name in columns])
        return with_columns(batch, pa.table(columns, schema=schema)).select(batch.column_names)


def metrics_of(step: Step) -> tuple[Metric, ...]:
    """The metrics that a step judges by; none if it only prepares cases for others."""
    found: tuple[Metric, ...] = getattr(step, "metrics", ())
    return found
