"""Summaries of documents for a question, one or two sentences each (BioGen, section 7.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field

from srrag.core.rows import Row, filled, live, rejected
from srrag.core.schema import EVIDENCE, REJECT
from srrag.core.spec import evidence_id
from srrag.core.step import LLMStep
from srrag.llm.completion import (
    Answer,
    Completion,
    Fault,
    Prompt,
    PromptFile,
    Rules,
    fenced,
    quoted,
)
from srrag.llm.fields import Items, Means, Text, most_tokens
from srrag.reading.numbers import lost_numbers
from srrag.reading.prose import plain
from srrag.systems.biogen.reformulate import context_of

MAX_WORDS = 80
MAX_DOCUMENTS = 16
MAX_CHARS = 32_000
"""Of the documents of a call, some 8,000 tokens."""


class Summary(Answer):
    """What a document says on the question."""

    n: Annotated[int, Field(ge=0, le=999), Means("the number of the document")]
    summary: Annotated[
        str,
        Text(
            MAX_WORDS,
            "one or two sentences, each of at most 28 words, on what it found, with its numbers "
            "exactly: %, OR, HR, RR, intervals, p-values, doses, times; the result first",
        ),
    ]


class DocumentSummaries(Answer):
    """What each document says."""

    example: ClassVar[dict[str, Any] | None] = {
        "summaries": [
            {
                "n": 1,
                "summary": "In 220 children, fluoride varnish lowered the two-year caries "
                "increment (1.2 against 1.9 surfaces, p = 0.01).",
            },
        ]
    }

    summaries: Annotated[
        list[Summary],
        Items(
            MAX_DOCUMENTS,
            "one for each document that bears on the question, also by another comparator, time or "
            "group of people; none for the others",
            "none does",
        ),
    ]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "summarise_documents.md", DocumentSummaries)


@dataclass(frozen=True, kw_only=True)
class SummariseDocuments(LLMStep):
    """Summarise each document of the column `documents`, `MAX_DOCUMENTS` a call.

    The paper asks for each document by a call of its own. A document without a summary says nothing
    on the question and is left out. Where a call is lost, or the end of its list, or a summary has
    a number that its document does not hold, the documents themselves stand, and are counted in
    `summaries_lost`; if all calls are lost, the row is rejected. Rules do not summarise: the
    documents go on verbatim.
    """

    version: ClassVar[int] = 5

    documents: str = "documents"
    into: str = "summaries"
    max_tokens: int = most_tokens(DocumentSummaries)

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
        """A prompt a package of documents, whose first number is its slot's; none by rules."""
        if self.off:
            return []
        system = PROMPT.system()
        return [
            Prompt(
                number,
                f"summaries {package[0]}",
                system,
                PROMPT.user(
                    question=fenced("question", row["text"]),
                    context=context_of(row),
                    documents="\n".join(_line(n, row[self.documents][n - 1]) for n in package),
                ),
                DocumentSummaries,
                max_tokens=self.max_tokens,
            )
            for number, row in live(batch, self.reads)
            for package in packages(row[self.documents])
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The beginnings of the documents, as long as a summary may be."""
        rows = batch[self.documents].to_pylist()
        answers = []
        for prompt in prompts:
            documents = rows[prompt.row]
            package = _package(documents, prompt)
            beginnings = (" ".join(documents[n - 1]["text"].split()[:MAX_WORDS]) for n in package)
            told = [Summary(n=n, summary=s) for n, s in zip(package, beginnings, strict=True)]
            answers.append(DocumentSummaries(summaries=told).model_dump_json())
        return answers

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """The summaries in order of the documents, and documents in the place of lost ones."""
        rows = batch[self.documents].to_pylist()
        told: dict[int, dict[int, str]] = {}
        faults: dict[int, Fault] = {}
        for prompt, completion in zip(prompts, completions, strict=True):
            if completion.fault is not None:
                faults.setdefault(prompt.row, completion.fault)
                continue
            found = told.setdefault(prompt.row, {})
            package = _package(rows[prompt.row], prompt)
            for each in completion.value.summaries:
                if each.n in package:
                    found.setdefault(each.n, plain(each.summary))
            end = _end(completion, package)
            for n in package:
                if n <= end:
                    found.setdefault(n, "")
        made = {}
        for number, row in live(batch, self.reads):
            documents = row[self.documents]
            if self.off:
                made[number] = {self.into: documents, "summaries_lost": 0}
            elif number in faults and number not in told:
                made[number] = rejected("summarise", faults[number])
            else:
                made[number] = self._row(documents, told.get(number, {}))
        return filled(batch, self.writes, made)

    def _row(self, documents: Sequence[Row], told: dict[int, str]) -> Row:
        kept, lost = [], 0
        for n, item in enumerate(documents, 1):
            text = told.get(n)
            if text is None or lost_numbers(text, (item["title"], str(item["year"]), item["text"])):
                kept.append(item)
                lost += 1
            elif text:
                kept.append(summarised(item, text))
        return {self.into: kept, "summaries_lost": lost}


def packages(documents: Sequence[Row]) -> list[list[int]]:
    """The numbers of documents, from 1, in packages that fit into a call, or of one document."""
    found: list[list[int]] = []
    room = 0
    for n, item in enumerate(documents, 1):
        size = len(item["text"])
        if not found or len(found[-1]) == MAX_DOCUMENTS or size > room:
            found.append([])
            room = MAX_CHARS
        found[-1].append(n)
        room -= size
    return found


def _package(documents: Sequence[Row], prompt: Prompt) -> list[int]:
    """The numbers of the documents that a prompt shows."""
    first = int(prompt.slot.rpartition(" ")[2])
    return next(each for each in packages(documents) if each[0] == first)


def _end(completion: Completion, package: Sequence[int]) -> int:
    """The last document of a package that an answer came to; what follows was never told."""
    if not completion.cut:
        return package[-1]
    told: list[int] = [each.n for each in completion.value.summaries if each.n in package]
    # Out of order, nobody knows which of the others it passed over.
    return told[-1] if told and told == sorted(told) else 0


def _line(number: int, item: Row) -> str:
    told = {"n": number, "pmid": item["pmid"], "year": item["year"] or None}
    return quoted(told | {"title": item["title"], "text": item["text"]})


def summarised(document: Row, text: str) -> Row:
    """A summary in the place of its document."""
    name = evidence_id("summary", document["unit_id"], text)
    span = {"char_start": -1, "char_end": -1}
    return document | span | {"evidence_id": name, "kind": "summary", "text": text}
