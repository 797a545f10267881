"""An answer without retrieval: what a model knows by itself, to compare retrieval with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import pyarrow as pa
from pydantic import Field, StringConstraints

from srrag.answer.write.cited import MAX_OPTIONS, choice_of
from srrag.answer.write.compose import CHOOSE, ComposeAnswer
from srrag.core.rows import Row, filled, live, rejected
from srrag.core.schema import EVIDENCE, HITS, NO_CHOICE, sentence_row
from srrag.core.step import LLMStep
from srrag.llm.completion import Answer, Completion, Prompt, PromptFile, Rules
from srrag.llm.delimit import fenced, quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "answer_unaided.md")
UNKNOWN = "Nothing was searched, and this question is not answered without evidence."
BY_RULES = "rules know nothing by themselves"
MAX_SENTENCES = 12

Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=800)]


class UnaidedAnswer(Answer):
    """Sentences, or none where the model does not know."""

    sentences: Annotated[list[Sentence], Field(max_length=MAX_SENTENCES)]
    insufficient: bool


class UnaidedChoice(UnaidedAnswer):
    """An answer to a question with options: the number of one from 1, 0 for none."""

    choice: Annotated[int, Field(ge=0, le=MAX_OPTIONS)]


@dataclass(frozen=True, kw_only=True)
class AnswerUnaided(LLMStep):
    """Answer `text`, with its `options`, from the model alone: what retrieval is compared with.

    Its columns are those of SelectEvidence and ComposeAnswer; there are no hits, no evidence and
    no citations. Rules know nothing, so with them every question is abstained from, and
    `answer_note` says why. An answer that is a fault rejects its row.
    """

    version: ClassVar[int] = 3

    max_sentences: int = 6
    max_tokens: int = 1024

    reads: ClassVar[tuple[str, ...]] = ("text", "options")
    writes: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("hits", HITS),
            pa.field("evidence", EVIDENCE, nullable=False),
            *ComposeAnswer.writes,
        ]
    )
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    def __post_init__(self) -> None:
        """Raise ValueError for a number of sentences that no answer can have."""
        if not 1 <= self.max_sentences <= MAX_SENTENCES:
            raise ValueError(f"max_sentences is {self.max_sentences}: 1 to {MAX_SENTENCES} work")

    @property
    def off(self) -> bool:
        """Whether every question is abstained from, since rules know nothing."""
        return isinstance(self.engine, Rules)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt a question."""
        system = PROMPT.system(max_sentences=self.max_sentences)
        return [
            Prompt(
                number,
                "answer",
                system,
                PROMPT.user(
                    question=fenced("question", row["text"]),
                    options=quoted(row["options"]) + (CHOOSE if row["options"] else ""),
                ),
                UnaidedChoice if row["options"] else UnaidedAnswer,
                max_tokens=self.max_tokens,
            )
            for number, row in live(batch, self.reads)
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Rules do not know."""
        blank = {"sentences": [], "insufficient": True}
        return [
            json.dumps(blank | ({"choice": 0} if prompt.schema is UnaidedChoice else {}))
            for prompt in prompts
        ]

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """The sentences as they are, none of them cited."""
        made = {
            prompt.row: self._row(completion, len(batch["options"][prompt.row]))
            for prompt, completion in zip(prompts, completions, strict=True)
        }
        return filled(batch, self.writes, made)

    def _row(self, completion: Completion, num_options: int) -> Row:
        if completion.fault is not None:
            return rejected("answer", completion.fault)
        said: list[str] = completion.value.sentences
        known = bool(said) and not completion.value.insufficient
        return {
            "answer": " ".join(said) if known else UNKNOWN,
            "sentences": [sentence_row(text, []) for text in said if known],
            "state": "answered" if known else "not",
            "choice": choice_of(completion.value, num_options) if known else NO_CHOICE,
            "answer_note": "" if known else BY_RULES if self.off else "the model does not know",
            "model": self.engine.name,
        }
