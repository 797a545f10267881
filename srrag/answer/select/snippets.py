"""Verbatim snippets of the evidence that help to answer (SR-RAG, Listing S2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from srrag.answer.select.candidates import titles
from srrag.core.rows import Row, RowStep
from srrag.core.schema import SNIPPETS, relation
from srrag.llm.completion import Answer, Fault, PromptFile, Rules, fenced, quoted
from srrag.llm.fields import Items, Means, Text, most_tokens
from srrag.reading.prose import find_quote, plain

MAX_SNIPPETS = 3
"""Table S3: at most three windows of a chunk."""
MAX_IN_ALL = 24

Part = Literal["P", "I", "C", "O", "T"]


class Snippet(Answer):
    """A stretch of a passage, and which parts of the question it states."""

    n: Annotated[int, Field(ge=0, le=999), Means("the number of the passage")]
    snippet: Annotated[
        str, Text(60, "one stretch of it, a sentence or two, copied character for character")
    ]
    reason: Annotated[str, Text(12, "what it contributes")]
    parts: Annotated[
        list[Part],
        Items(
            5,
            "what it states itself of the question: P population, I intervention, C comparator, "
            "O outcome, T time",
            "nothing",
        ),
    ]


class Snippets(Answer):
    """The snippets of all passages."""

    example: ClassVar[dict[str, Any] | None] = {
        "windows": [
            {
                "n": 2,
                "snippet": "At 2 years, children with varnish had 0.7 fewer carious surfaces.",
                "reason": "size of the effect",
                "parts": ["P", "I", "O", "T"],
            }
        ]
    }

    windows: Annotated[
        list[Snippet],
        Items(MAX_IN_ALL, f"the most helpful first, at most {MAX_SNIPPETS} of a passage",
              "nothing helps"),
    ]  # fmt: skip


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "select_snippets.md", Snippets)


@dataclass(frozen=True, kw_only=True)
class FindSnippets(RowStep):
    """Add `snippets` of `evidence`: one call for all its windows, of which the paper reads each.

    A snippet that its window does not hold is asked for again, and then dropped and counted in
    `lost_snippets`. A faulty answer rejects the row. By rules this step is off.
    """

    version: ClassVar[int] = 10

    reads: ClassVar[tuple[str, ...]] = ("text", "evidence")
    writes: ClassVar[pa.Schema] = relation(("snippets", SNIPPETS), "lost_snippets:int")
    slot: ClassVar[str] = "snippets"
    file: ClassVar[PromptFile] = PROMPT
    auxiliary: ClassVar[bool] = True

    max_tokens: int = most_tokens(Snippets)

    @property
    def off(self) -> bool:
        """Rules read no snippets."""
        return isinstance(self.engine, Rules)

    def told(self, row: Row) -> dict[str, str] | None:
        """The question and its evidence, if it has any."""
        if self.off or not row["evidence"]:
            return None
        passages = enumerate(zip(row["evidence"], titles(row["evidence"]), strict=True), 1)
        return {
            "question": fenced("question", row["text"]),
            "passages": "\n".join(
                quoted({"n": n, **title, "text": item["text"]}) for n, (item, title) in passages
            ),
        }

    def ruled(self, rows: Sequence[Row]) -> list[Snippets]:
        """Nothing is marked."""
        return [Snippets(windows=[]) for _ in rows]

    def fault(self, value: Snippets, row: Row) -> Fault | None:
        """Snippets that do not stand in their passages, which alone are asked for again."""
        wrong = [n for n, each in enumerate(value.windows) if _place(each, row["evidence"]) is None]
        if not wrong:
            return None
        detail = f"This is not in its passage: {value.windows[wrong[0]].snippet[:200]!r}. Copy it."
        return Fault("ungrounded", detail, tuple(("windows", n) for n in wrong))

    def columns(self, value: Snippets, row: Row) -> Row:
        """The snippets that stand in their windows, in order of these, each once."""
        evidence = row["evidence"]
        found = [(each, _place(each, evidence)) for each in value.windows]
        rows: dict[tuple[int, tuple[int, int]], Row] = {}
        for each, span in found:
            if span:
                rows.setdefault((each.n, span), _row(each, span, evidence[each.n - 1]))
        lost = sum(span is None for _, span in found)
        return {"snippets": _first(rows), "lost_snippets": lost}


def _place(each: Snippet, evidence: Sequence[Row]) -> tuple[int, int] | None:
    """The span of a snippet in the passage that it names."""
    known = 1 <= each.n <= len(evidence)
    return find_quote(each.snippet, evidence[each.n - 1]["text"]) if known else None


def _row(each: Snippet, span: tuple[int, int], passage: Row) -> Row:
    return {
        "evidence_id": passage["evidence_id"],
        "text": passage["text"][slice(*span)],
        "char_start": span[0],
        "char_end": span[1],
        "reason": plain(each.reason),
        "parts": [part for part in "PICOT" if part in each.parts],
    }


def _first(rows: dict[tuple[int, tuple[int, int]], Row]) -> list[Row]:
    """The first snippets of each passage, in order of the passages."""
    kept: dict[int, list[Row]] = {}
    for (number, _), row in rows.items():
        kept.setdefault(number, []).append(row)
    return [row for number in sorted(kept) for row in kept[number][:MAX_SNIPPETS]]
