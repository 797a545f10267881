"""A yes or no on each of some numbered statements: what two preparations have in common."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field

from srrag.lab.judges.claims import MAX_CLAIMS
from srrag.lab.measure.judgements import Case, Preparation, incomplete, lines, numbered
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile


class Mark(Answer):
    """Yes or no on one statement."""

    n: Annotated[int, Field(ge=1, le=MAX_CLAIMS)]
    yes: bool


class Marks(Answer):
    """A mark a statement."""

    verdicts: Annotated[list[Mark], Field(max_length=MAX_CLAIMS)]


@dataclass(frozen=True, kw_only=True)
class MarkStatements(Preparation):
    """One call a case with all of its statements; one without a mark is a fault of the case."""

    prompt_file: ClassVar[PromptFile]

    max_tokens: int = 768

    @abc.abstractmethod
    def statements(self, case: Case) -> list[str]:
        """What is to be marked."""

    @abc.abstractmethod
    def shown(self, case: Case) -> Mapping[str, str]:
        """What the prompt shows beside the statements."""

    @abc.abstractmethod
    def rule(self, case: Case, n: int, statement: str) -> bool:
        """Mark the n-th statement, from 1, by rules."""

    @abc.abstractmethod
    def take(self, batch: pa.Table, marks: Mapping[int, list[bool] | Fault]) -> pa.Table:
        """Take over the marks of each row, or the fault for which there are none."""

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """A prompt for each case with statements."""
        system = self.prompt_file.system()
        prompts = []
        for row, case in enumerate(batch.select(self.reads).to_pylist()):
            if statements := self.statements(case):
                listed = lines({"statement": text} for text in statements)
                user = self.prompt_file.user(**self.shown(case), statements=listed)
                prompts.append(Prompt(row, "", system, user, Marks, max_tokens=self.max_tokens))
        return prompts

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Mark by rules."""
        cases = batch.select(self.reads).to_pylist()
        answers = []
        for prompt in prompts:
            case = cases[prompt.row]
            marks = [
                Mark(n=n, yes=self.rule(case, n, statement))
                for n, statement in enumerate(self.statements(case), start=1)
            ]
            answers.append(Marks(verdicts=marks).model_dump_json())
        return answers

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Statements without a mark."""
        (case,) = batch.select(self.reads).slice(prompt.row, 1).to_pylist()
        return incomplete(value.verdicts, len(self.statements(case)))

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Read the marks of each case."""
        marks: dict[int, list[bool] | Fault] = {}
        for prompt, completion in zip(prompts, completions, strict=True):
            fault = completion.fault or self.check(batch, prompt, completion.value)
            if fault:
                marks[prompt.row] = fault
                continue
            found = numbered(completion.value.verdicts)
            (case,) = batch.select(self.reads).slice(prompt.row, 1).to_pylist()
            marks[prompt.row] = [found[n + 1].yes for n in range(len(self.statements(case)))]
        return self.take(batch, marks)
