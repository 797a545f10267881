"""What steps share that ask a model about a question: one prompt, whose answer fills columns."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from srrag.core.rows import filled, live, rejected
from srrag.core.step import LLMStep
from srrag.llm.completion import Completion, Prompt, PromptFile
from srrag.llm.delimit import fenced


@dataclass(frozen=True, kw_only=True)
class QuestionStep(LLMStep):
    """An LLMStep with one prompt for each question (`text`); a faulty answer rejects its row."""

    max_tokens: int

    slot: ClassVar[str]
    """The name of its prompts and of the stage of its rejects."""
    file: ClassVar[PromptFile]
    temperature: ClassVar[float] = 0.0
    auxiliary: ClassVar[bool] = True

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt a question."""
        assert self.file.schema is not None
        asked = self.asked()
        return [
            Prompt(
                number,
                self.slot,
                user=self.file.user(**self.told(row)),
                schema=self.file.schema,
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                **asked,
            )
            for number, row in live(batch, self.reads)
        ]

    def asked(self) -> dict[str, Any]:
        """The system text, and what else all prompts share."""
        return {"system": self.file.system()}

    def told(self, row: Mapping[str, Any]) -> dict[str, str]:
        """What the user text tells: the question."""
        return {"question": fenced("question", row["text"])}

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Fill the columns of each question."""
        texts = batch["text"].to_pylist()
        made = {
            prompt.row: self.columns(answer.value, texts[prompt.row])
            if answer.fault is None
            else rejected(self.slot, answer.fault)
            for prompt, answer in zip(prompts, completions, strict=True)
        }
        return filled(batch, self.writes, made)

    @abc.abstractmethod
    def columns(self, answer: Any, question: str) -> dict[str, Any]:
        """The columns that an answer fills."""
