"""A message of a conversation as a question that stands alone, by a model shown what was said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from srrag.core.rows import Row, RowStep, with_columns, with_rejects
from srrag.core.schema import CONVERSATION, empty_value
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile
from srrag.llm.fields import Items, Means, Text, most_tokens
from srrag.reading.conversation import places_of, said
from srrag.reading.numbers import told_numbers
from srrag.reading.prose import plain

MAX_RECALLED = 4
"""Earlier papers that come first again: half of a block, so that new ones have the other."""


class FollowUp(Answer):
    """What a message asks, in the light of what was said."""

    example: ClassVar[dict[str, Any] | None] = {
        "kind": "follow_up",
        "question": "Does fluoride varnish prevent caries in adults with dry mouth?",
        "papers": [],
    }

    kind: Annotated[
        Literal["follow_up", "new"],
        Means(
            "",
            {
                "follow_up": "if it leans on what was said: it refers to it, leaves out what was "
                "named before, or asks about an answer or a paper in it",
                "new": "if it says all that it means by itself",
            },
        ),
    ]
    question: Annotated[
        str,
        Text(
            60,
            "the question that stands alone, in one sentence; a new one as it was asked, without "
            "thanks and the like",
        ),
    ]
    papers: Annotated[
        list[Annotated[str, Field(max_length=8)]],
        Items(
            MAX_RECALLED,
            'the earlier papers, such as "E2", that are needed again: those that the message '
            "speaks of, and those that a statement rests on which it doubts or wants explained",
            "it asks of other people, treatments or outcomes, which other papers tell",
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class ReadFollowUp(RowStep):
    """Read the message of a conversation as a question of its own, in one call.

    `text` becomes that question, and the papers that the message speaks of are `recalled`. Of a
    message that leans on nothing the conversation is forgotten. A question without a conversation
    asks nothing. Where the answer is faulty, or holds a number that nobody named, `text` stays what
    it was: the message as rules read it, or as it was written if it is new.
    """

    max_tokens: int = most_tokens(FollowUp)

    reads: ClassVar[tuple[str, ...]] = ("text", "conversation")
    revises: ClassVar[tuple[str, ...]] = ("text", "conversation")
    writes: ClassVar[pa.Schema] = pa.schema([])
    auxiliary: ClassVar[bool] = True
    slot: ClassVar[str] = "follow_up"
    file: ClassVar[PromptFile] = PromptFile(
        Path(__file__).parent / "prompts" / "read_follow_up.md", FollowUp
    )
    version: ClassVar[int] = 2

    def told(self, row: Row) -> dict[str, str] | None:
        """What was said, if anything was."""
        return {"said": said(row["conversation"])} if row["conversation"]["turns"] else None

    def ruled(self, rows: Sequence[Row]) -> Iterator[FollowUp]:
        """The question as it stands."""
        for row in rows:
            yield FollowUp(kind="follow_up", question=row["text"], papers=[])

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Revise each question that was asked about."""
        rows = batch.select(list(self.reads)).to_pylist()
        faults: dict[int, list[Fault]] = {}
        for prompt, answer in zip(prompts, completions, strict=True):
            if answer.fault is not None:
                faults[prompt.row] = [answer.fault]
            else:
                rows[prompt.row] = self.columns(answer.value, rows[prompt.row])
        fields = [batch.schema.field(name) for name in self.reads]
        table = pa.Table.from_pylist(rows, schema=pa.schema(fields))
        return with_rejects(with_columns(batch, table), self.slot, faults)

    def columns(self, value: FollowUp, row: Row) -> Row:
        """The question that stands alone, and its conversation."""
        conversation = row["conversation"]
        asked = told_numbers([plain(value.question)], [said(conversation), row["text"]])
        new = value.kind == "new"
        plain_text = conversation["asked"] if new else row["text"]
        text = asked[0] if asked and any(map(str.isalnum, asked[0])) else plain_text
        if new:
            return {"text": text, "conversation": empty_value(CONVERSATION)}
        recalled = places_of(value.papers)
        papers = [
            paper | {"recalled": place in recalled}
            for place, paper in enumerate(conversation["papers"])
        ]
        return {"text": text, "conversation": conversation | {"papers": papers}}
