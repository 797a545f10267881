"""An answer without retrieval: what a model knows by itself, to compare retrieval with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from srrag.answer.write.choose import ChooseOption
from srrag.answer.write.cited import choice_of
from srrag.answer.write.papers_answer import MAX_OPTIONS
from srrag.core.rows import Row, RowStep
from srrag.core.schema import NO_CHOICE, sentence_row
from srrag.llm.completion import Answer, PromptFile, Rules, fenced, quoted
from srrag.llm.fields import Items, Means, Text, most_tokens

UNKNOWN = "Nothing was searched, and this question is not answered without evidence."
BY_RULES = "rules know nothing by themselves"
MAX_SENTENCES = 6


class UnaidedAnswer(Answer):
    """Whether the model knows, the number of an option, and sentences."""

    example: ClassVar[dict[str, Any] | None] = {
        "state": "answered",
        "choice": 0,
        "sentences": ["Yes: inhaled budesonide lowers the number of asthma attacks in adults."],
    }

    state: Annotated[
        Literal["answered", "partly", "not"],
        Means("whether you know", {"answered": "the answer", "partly": "a part of it",
                                   "not": "nothing of it"}),
    ]  # fmt: skip
    choice: Annotated[
        int,
        Field(ge=0, le=MAX_OPTIONS),
        Means("the number of the option that you settle on, from 1; 0 where there are no options"),
    ]
    sentences: Annotated[
        list[Annotated[str, Text(40, "with one claim")]],
        Items(
            MAX_SENTENCES,
            "the first answers the question itself, with options in the words of one of them; the "
            "others give what it rests on: population, dose, size of effect, time",
            'the state is "not"',
        ),
    ]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "answer_unaided.md", UnaidedAnswer)


@dataclass(frozen=True, kw_only=True)
class AnswerUnaided(RowStep):
    """Answer `text`, with its `options`, from the model alone: what retrieval is compared with.

    Its columns are those of SelectEvidence and ComposeAnswer; there are no hits, no evidence and
    no citations. Rules know nothing, so with them every question is abstained from, and
    `answer_note` says why. An answer that is a fault rejects its row.
    """

    version: ClassVar[int] = 4

    max_tokens: int = most_tokens(UnaidedAnswer)

    reads: ClassVar[tuple[str, ...]] = ("text", "options")
    writes: ClassVar[pa.Schema] = ChooseOption(evidence="").writes
    slot: ClassVar[str] = "answer"
    file: ClassVar[PromptFile] = PROMPT

    @property
    def off(self) -> bool:
        """Whether every question is abstained from, since rules know nothing."""
        return isinstance(self.engine, Rules)

    def told(self, row: Row) -> dict[str, str]:
        """The question with its options."""
        options = f"\nOptions: {quoted(row['options'])}" if row["options"] else ""
        return {"question": fenced("question", row["text"]), "options": options}

    def ruled(self, rows: Sequence[Row]) -> list[UnaidedAnswer]:
        """Rules do not know."""
        return [UnaidedAnswer(state="not", choice=0, sentences=[]) for _ in rows]

    def columns(self, value: UnaidedAnswer, row: Row) -> Row:
        """The sentences as they are, none of them cited."""
        said = value.sentences
        known = bool(said) and value.state != "not"
        return {
            "answer": " ".join(said) if known else UNKNOWN,
            "sentences": [sentence_row(text, []) for text in said if known],
            "state": value.state if known else "not",
            "choice": choice_of(value, len(row["options"])) if known else NO_CHOICE,
            "answer_note": "" if known else BY_RULES if self.off else "the model does not know",
            "model": self.engine.name,
        }
