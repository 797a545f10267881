"""What steps share that ask a model once about a row: a prompt, whose answer fills its columns."""

from __future__ import annotations

import abc
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from srrag.core.rows import Row, filled, live, rejected
from srrag.core.step import LLMStep
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile
from srrag.llm.delimit import fenced


@dataclass(frozen=True, kw_only=True)
class RowStep(LLMStep):
    """An LLMStep with at most one prompt for each row; a faulty answer rejects its row."""

    max_tokens: int

    slot: ClassVar[str]
    """The name of its prompts."""
    stage: ClassVar[str] = ""
    """The stage of its rejects, "" for that of the slot."""
    file: ClassVar[PromptFile]
    temperature: ClassVar[float] = 0.0

    def __init_subclass__(cls) -> None:
        """Let the prompt's file be a part of the step's identity."""
        super().__init_subclass__()
        if "file" in vars(cls):
            cls.prompt_files = (cls.file.path,)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt for each live row that there is something to ask about."""
        shared = {"schema": self.file.schema, **self.asked()}
        return [
            Prompt(
                number, self.slot, user=self.file.user(**told), temperature=self.temperature,
                max_tokens=self.max_tokens, **{**shared, **self.own(row)},
            )
            for number, row in live(batch, self.reads)
            if (told := self.told(row)) is not None
        ]  # fmt: skip

    def asked(self) -> dict[str, Any]:
        """What all prompts share: the system text."""
        return {"system": self.file.system()}

    def own(self, row: Row) -> dict[str, Any]:
        """What else the prompt of a row has, such as its schema or the question that it is on."""
        return {}

    def told(self, row: Row) -> Mapping[str, object] | None:
        """What the user text tells of a row, such as its question; None asks nothing."""
        return {"question": fenced("question", row["text"])}

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The answer of the rules to each row."""
        rows = dict(live(batch, self.reads))
        answers = self.ruled([rows[prompt.row] for prompt in prompts])
        return [
            json.dumps(each) if isinstance(each, dict) else each.model_dump_json()
            for each in answers
        ]

    @abc.abstractmethod
    def ruled(self, rows: Sequence[Row]) -> Iterable[Answer | Row]:
        """Answer the prompts of these rows by rules, in their schema or what fits it."""

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """The fault of an answer, by its row."""
        (row,) = batch.select(list(self.reads)).slice(prompt.row, 1).to_pylist()
        return self.fault(value, row)

    def fault(self, value: Any, row: Row) -> Fault | None:
        """Why an answer that fits its schema cannot stand, None if it can."""
        return None

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Fill the columns of each row."""
        rows = dict(live(batch, self.reads))
        made = {
            prompt.row: rejected(self.stage or self.slot, answer.fault)
            if answer.fault is not None
            else self.columns(answer.value, rows[prompt.row])
            for prompt, answer in zip(prompts, completions, strict=True)
        }
        unasked = {number: self.unasked(row) for number, row in rows.items() if number not in made}
        return filled(batch, self.writes, made | unasked)

    def unasked(self, row: Row) -> Row:
        """The columns of a row that nothing is asked about; what it lacks is empty."""
        return {}

    @abc.abstractmethod
    def columns(self, value: Any, row: Row) -> Row:
        """The columns that an answer fills, or what `rejected` returns."""
