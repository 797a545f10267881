"""A summary of each document for a question, one or two sentences (BioGen, section 7.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import StringConstraints

from srrag.core.ids import evidence_id
from srrag.core.rows import Row, filled, live, rejected
from srrag.core.schema import EVIDENCE, REJECT
from srrag.core.step import LLMStep
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile, Rules
from srrag.llm.delimit import fenced, quoted
from srrag.reading.numbers import lost_numbers
from srrag.reading.prose import plain

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "summarise_document.md")
MAX_WORDS = 80
MAX_CHARS = 1200
_SHOWN = 5


class Summary(Answer):
    """What a document says on the question."""

    summary: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_CHARS)
    ]


@dataclass(frozen=True, kw_only=True)
class SummariseDocuments(LLMStep):
    """Summarise each document of the column `documents`: one call a document.

    A summary of more than 80 words, or with a number that its document does not hold, is asked for
    again. If the second one has such a number too, or cannot be read, it is left out and counted in
    `summaries_lost`; if all are lost, the row is rejected. The engine `rules` does not summarise:
    the documents go on as they are, verbatim.
    """

    documents: str = "documents"
    into: str = "summaries"
    max_tokens: int = 320
    """Eighty words, and as much again in reserve."""

    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The question with its context, and the documents."""
        return ("text", "topic", "narrative", self.documents)

    @property
    def writes(self) -> pa.Schema:
        """The summaries as evidence, and how many were lost."""
        return pa.schema(
            [
                pa.field("summaries_lost", pa.int32(), nullable=False),
                pa.field(self.into, EVIDENCE, nullable=False),
                pa.field("reject", REJECT),
            ]
        )

    @property
    def off(self) -> bool:
        """Whether documents stay as they are, since rules do not summarise."""
        return isinstance(self.engine, Rules)

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt a document; none by rules."""
        if self.off:
            return []
        system = PROMPT.system()
        return [
            Prompt(
                number,
                f"summary {place}",
                system,
                PROMPT.user(
                    question=fenced("question", row["text"]),
                    topic=quoted(row["topic"]),
                    narrative=quoted(row["narrative"]),
                    title=quoted(item["title"]),
                    document=quoted(item["text"]),
                ),
                Summary,
                max_tokens=self.max_tokens,
            )
            for number, row in live(batch, self.reads)
            for place, item in enumerate(row[self.documents])
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The beginning of each document, as long as a summary may be."""
        rows = batch[self.documents].to_pylist()
        texts = [rows[prompt.row][_place(prompt)]["text"] for prompt in prompts]
        return [
            Summary(summary=" ".join(text.split()[:MAX_WORDS])[:MAX_CHARS] or "–").model_dump_json()
            for text in texts
        ]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Faults: `invented_number`, and `long_summary`."""
        item = batch[self.documents][prompt.row].as_py()[_place(prompt)]
        if invented := invented_numbers(value.summary, item):
            told = ", ".join(invented[:_SHOWN])
            detail = f"The summary holds numbers that the document does not: {told}."
            return Fault("invented_number", detail)
        if (size := len(value.summary.split())) > MAX_WORDS:
            detail = f"The summary has {size} words; {MAX_WORDS} are allowed."
            return Fault("long_summary", detail)
        return None

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Keep the summaries that can be read and add no number, in order of the documents."""
        given = {
            (prompt.row, _place(prompt)): completion
            for prompt, completion in zip(prompts, completions, strict=True)
        }
        made = {}
        for number, row in live(batch, self.reads):
            documents = row[self.documents]
            if self.off:
                made[number] = {self.into: documents, "summaries_lost": 0}
                continue
            answers = [given[number, place] for place in range(len(documents))]
            made[number] = self._row(documents, answers)
        return filled(batch, self.writes, made)

    def _row(self, documents: Sequence[Row], answers: Sequence[Completion]) -> Row:
        kept = []
        for item, answer in zip(documents, answers, strict=True):
            if answer.fault is None and not invented_numbers(answer.value.summary, item):
                kept.append(summarised(item, plain(answer.value.summary)))
        faults = [answer.fault for answer in answers if answer.fault is not None]
        if documents and not kept:
            fault = faults[0] if faults else Fault("invented_number", "in every summary")
            return rejected("summarise", fault)
        return {self.into: kept, "summaries_lost": len(documents) - len(kept)}


def summarised(document: Row, text: str) -> Row:
    """A summary in the place of its document."""
    name = evidence_id("summary", document["unit_id"], text)
    span = {"char_start": -1, "char_end": -1}
    return document | span | {"evidence_id": name, "kind": "summary", "text": text}


def invented_numbers(summary: str, document: Row) -> list[str]:
    """Numbers of a summary that nothing shown of its document holds."""
    return lost_numbers(summary, (document["title"], str(document["year"]), document["text"]))


def _place(prompt: Prompt) -> int:
    return int(prompt.slot.rpartition(" ")[2])
