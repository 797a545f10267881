"""Verbatim snippets of each piece of evidence that help to answer (SR-RAG, Listing S2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field, StringConstraints

from srrag.algo.grounding import ground
from srrag.answer.select.candidates import passage_of
from srrag.answer.select.quotes import ExtractRule
from srrag.core.rows import Row, live, with_columns, with_rejects
from srrag.core.schema import REJECT, SNIPPETS
from srrag.core.step import LLMStep
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile
from srrag.llm.delimit import fenced, inert
from srrag.reading.mentions import find_mentions
from srrag.reading.prose import plain

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "select_snippets.md")
MAX_SNIPPETS = 3
"""Table S3: at most three windows of a chunk."""
MAX_SNIPPET_CHARS = 600
MAX_TOKENS = 1024
"""Three snippets of 100 tokens, each with a reason and six flags, are some 600."""

PART_OF = {
    "Population": "P", "Condition": "P",
    "Intervention": "I", "Device": "I", "Arm": "I",
    "Comparator": "C",
    "Outcome": "O", "AdverseEvent": "O",
    "Timepoint": "T",
}  # fmt: skip
"""The part of a question that each type of mention states."""
_FLAGS = {
    "P": "contains_population",
    "I": "contains_intervention",
    "C": "contains_comparator",
    "O": "contains_outcome",
    "T": "contains_time",
}
_CUTS_BEFORE = re.compile(r"(?:\w|\d[.,])\Z")
_CUTS_AFTER = re.compile(r"\w|[.,]\d")


class Snippet(Answer):
    """A stretch of the passage, and which parts of the question it states."""

    snippet: Annotated[str, StringConstraints(min_length=1, max_length=MAX_SNIPPET_CHARS)]
    reason: Annotated[str, StringConstraints(max_length=200)]
    contains_population: bool
    contains_intervention: bool
    contains_comparator: bool
    contains_outcome: bool
    contains_time: bool
    outcome_and_time_same_window: bool


class Snippets(Answer):
    """The snippets of one passage, the most helpful first."""

    windows: Annotated[list[Snippet], Field(max_length=MAX_SNIPPETS)]


def render(question: str, passage: str) -> tuple[str, str]:
    """System and user text."""
    system = PROMPT.system(max_snippets=MAX_SNIPPETS)
    return system, PROMPT.user(
        question=fenced("question", question), passage=fenced("passage", passage)
    )


@dataclass(frozen=True, kw_only=True)
class FindSnippets(LLMStep):
    """Add `snippets` of `evidence`, one prompt a window: twelve a question by default.

    A snippet is dropped unless its window holds it, up to blanks and case. A faulty answer loses
    the snippets of its window and rejects the row; the snippets of the other windows stay.
    `lost_snippets` counts what was lost in both ways. The rules take all sentences that ExtractRule
    would quote.
    """

    version: ClassVar[int] = 8

    reads: ClassVar[tuple[str, ...]] = ("text", "evidence")
    writes: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("snippets", SNIPPETS, nullable=False),
            pa.field("lost_snippets", pa.int32(), nullable=False),
            pa.field("reject", REJECT),
        ]
    )
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    auxiliary: ClassVar[bool] = True

    max_tokens: int = MAX_TOKENS
    rule: ExtractRule = field(default_factory=lambda: ExtractRule(max_sentences=24, keep=0.25))

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render one prompt for each piece of evidence; its slot is the evidence's id."""
        return [
            Prompt(
                row,
                item["evidence_id"],
                *render(question["text"], item["text"]),
                Snippets,
                max_tokens=self.max_tokens,
            )
            for row, question in live(batch, self.reads)
            for item in question["evidence"]
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Sentences that the rules would quote, with flags by the mentions that they hold."""
        quotes = {row: self._quotes(question) for row, question in live(batch, self.reads)}
        chosen = [quotes[prompt.row][prompt.slot] for prompt in prompts]
        flat = [text for texts in chosen for text in texts]
        parts = iter(_stated(flat))
        return [
            Snippets(windows=[_snippet(text, next(parts)) for text in texts]).model_dump_json()
            for texts in chosen
        ]

    def _quotes(self, question: Row) -> dict[str, list[str]]:
        """The sentences of each piece of evidence, best first, as they stand in it."""
        evidence = question["evidence"]
        passages = [passage_of(item) for item in evidence]
        found: dict[str, list[str]] = {item["evidence_id"]: [] for item in evidence}
        for choice in self.rule(question["text"], passages).choices:
            for number in choice.cites:
                item = evidence[number - 1]
                span = place(choice.text, item["text"])
                texts = found[item["evidence_id"]]
                if span and span[1] - span[0] <= MAX_SNIPPET_CHARS and len(texts) < MAX_SNIPPETS:
                    texts.append(inert(item["text"])[slice(*span)])
        return found

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """A snippet that does not stand in its passage."""
        evidence = batch.column("evidence")[prompt.row].as_py()
        passage = next(item["text"] for item in evidence if item["evidence_id"] == prompt.slot)
        for each in value.windows:
            if place(each.snippet, passage) is None:
                quote = each.snippet[:200]
                return Fault("ungrounded", f"This is not in the passage: {quote!r}. Copy exactly.")
        return None

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Find each snippet in its window; drop and count those that are not there."""
        rows = dict(live(batch, self.reads))
        texts = {
            (row, item["evidence_id"]): item["text"]
            for row, question in rows.items()
            for item in question["evidence"]
        }
        found: list[list[Row]] = [[] for _ in range(batch.num_rows)]
        lost = [0] * batch.num_rows
        faults: dict[int, list[Fault]] = {}
        for prompt, completion in zip(prompts, completions, strict=True):
            if completion.fault is not None:
                lost[prompt.row] += 1
                faults.setdefault(prompt.row, []).append(completion.fault)
                continue
            passage = texts[prompt.row, prompt.slot]
            placed: dict[tuple[int, int], Snippet] = {}
            for each in completion.value.windows:
                if span := place(each.snippet, passage):
                    placed.setdefault(span, each)
                else:
                    lost[prompt.row] += 1
            found[prompt.row].extend(_rows(prompt.slot, passage, placed))
        columns = {"snippets": pa.array(found, SNIPPETS), "lost_snippets": pa.array(lost, "int32")}
        made = pa.table(columns)
        return with_rejects(with_columns(batch, made), "snippets", faults)


def place(snippet: str, passage: str) -> tuple[int, int] | None:
    """Find the offsets of a snippet in a passage; None if it is not there or cuts a word or number.

    The passage is searched as the prompt shows it, in which every offset is the same.
    """
    shown = inert(passage)
    span = ground(snippet.strip(), shown)
    if span is None:
        return None
    start, end = span
    cut = shown[start].isalnum() and _CUTS_BEFORE.search(shown, max(0, start - 2), start)
    cut = cut or (shown[end - 1].isalnum() and _CUTS_AFTER.match(shown, end))
    return None if cut else span


def _rows(evidence_id: str, passage: str, placed: dict[tuple[int, int], Snippet]) -> list[Row]:
    """Snippets by their spans in a passage, as rows."""
    rows = []
    for (start, end), each in placed.items():
        parts = [part for part, flag in _FLAGS.items() if getattr(each, flag)]
        rows.append(
            {
                "evidence_id": evidence_id,
                "text": passage[start:end],
                "char_start": start,
                "char_end": end,
                "reason": plain(each.reason),
                "parts": parts,
                "outcome_with_time": each.outcome_and_time_same_window and {"O", "T"} <= {*parts},
            }
        )
    return rows


def _stated(texts: Sequence[str]) -> list[set[str]]:
    """The parts of a question that each text states, by the rules of extraction."""
    if not texts:
        return []
    found = find_mentions(texts, [""] * len(texts), [False] * len(texts))
    return [{PART_OF[m.type] for m in mentions if m.type in PART_OF} for mentions in found]


def _snippet(text: str, parts: set[str]) -> Snippet:
    flags = {flag: part in parts for part, flag in _FLAGS.items()}
    both = {"O", "T"} <= parts
    return Snippet(
        snippet=text, reason="shares words with the question",
        outcome_and_time_same_window=both, **flags,
    )  # fmt: skip
