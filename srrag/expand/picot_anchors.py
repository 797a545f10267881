"""PICOT anchors: the words of a question that name its parts (SR-RAG, section 4.4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa

from srrag.core.schema import ANCHORS, REJECT
from srrag.expand.anchor_rules import rule_anchors
from srrag.expand.question_step import QuestionStep
from srrag.llm.completion import Answer, Prompt, PromptFile
from srrag.llm.delimit import inert
from srrag.llm.fields import Items, Text, most_tokens

Phrase = Annotated[str, Text(12, "words of the question as they stand there")]
PARTS = ("people", "treatment", "comparator", "outcome", "time")


class QuestionParts(Answer):
    """The words of a question that name its parts."""

    example: ClassVar[dict[str, Any] | None] = {
        "people": ["kids"], "treatment": ["fluoride paint"], "comparator": [],
        "outcome": ["holes"], "time": ["for two years"],
    }  # fmt: skip

    people: Annotated[list[Phrase], Items(4, "whom or what condition it is on", "it names none")]
    treatment: Annotated[list[Phrase], Items(4, "treatment, test or exposure", "it names none")]
    comparator: Annotated[list[Phrase], Items(4, "what it is compared with", "it names none")]
    outcome: Annotated[list[Phrase], Items(4, "what may change", "it names none")]
    time: Annotated[list[Phrase], Items(4, "when", "it names none")]

    def anchors(self, question: str) -> dict[str, list[str]]:
        """What of it the question holds, as it spells it, by the letters of PICOT."""
        parts = zip("PICOT", (getattr(self, name) for name in PARTS), strict=True)
        found = {letter: [locate(each, question) for each in said] for letter, said in parts}
        return {letter: [*dict.fromkeys(filter(None, said))] for letter, said in found.items()}


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "picot_anchors.md", QuestionParts)


@dataclass(frozen=True, kw_only=True)
class FindAnchors(QuestionStep):
    """Copy the phrases that name P, I, C, O and T out of `text`.

    An anchor is a verbatim part of the question in its spelling; what the question does not hold is
    dropped, so nothing is invented, and an unnamed part stays empty. The rules read English
    questions. A faulty answer rejects its row.
    """

    version: ClassVar[int] = 3

    max_tokens: int = most_tokens(QuestionParts)

    reads: ClassVar[tuple[str, ...]] = ("text",)
    writes: ClassVar[pa.Schema] = pa.schema(
        [pa.field("anchors", ANCHORS, nullable=False), pa.field("reject", REJECT)]
    )
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    slot: ClassVar[str] = "anchors"
    file: ClassVar[PromptFile] = PROMPT

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The words between the cues of a question, typed by the rules of extraction."""
        texts = batch["text"].to_pylist()
        found = rule_anchors([texts[prompt.row] for prompt in prompts])
        return [
            QuestionParts(
                **{name: anchors[part] for name, part in zip(PARTS, "PICOT", strict=True)}
            ).model_dump_json()
            for anchors in found
        ]

    def columns(self, answer: QuestionParts, question: str) -> dict[str, Any]:
        """The anchors that the question holds, as it spells them, each once."""
        return {"anchors": answer.anchors(question)}


def locate(anchor: str, question: str) -> str | None:
    """The stretch of whole words that is the anchor but for case and blanks, None if none is."""
    words = r"\s+".join(re.escape(word) for word in inert(anchor).split())
    # Match whole words and numbers only: "5" is no anchor of "1.5".
    pattern = rf"(?<![A-Za-z0-9])(?<!\d[.,]){words}(?![A-Za-z0-9])(?![.,]\d)"
    found = re.search(pattern, inert(question), re.IGNORECASE) if words else None
    return question[found.start() : found.end()] if found else None
