"""PICOT anchors: the words of a question that name its parts (SR-RAG, section 4.4)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import Field, StringConstraints

from srrag.core.rows import filled, live, rejected
from srrag.core.schema import ANCHORS, REJECT
from srrag.core.step import LLMStep
from srrag.expand.anchor_rules import MAX_ANCHORS, MAX_CHARS, rule_anchors
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile
from srrag.llm.delimit import fenced, inert

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "picot_anchors.md")
MAX_TOKENS = 512
"""Five parts of a few phrases of the question, which stand in the answer once."""
_MAX_SHOWN, _MAX_SHOWN_CHARS = 5, 60

Anchor = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_CHARS)
]
Anchors = Annotated[list[Anchor], Field(max_length=MAX_ANCHORS)]


class PicotAnchors(Answer):
    """Phrases of the question for each part; an empty list is a part that it does not name."""

    P: Anchors
    I: Anchors  # noqa: E741 (the field's own letter)
    C: Anchors
    O: Anchors  # noqa: E741
    T: Anchors

    def parts(self) -> Iterator[tuple[str, list[str]]]:
        """Each letter with its anchors."""
        return ((part, getattr(self, part)) for part in "PICOT")


@dataclass(frozen=True, kw_only=True)
class FindAnchors(LLMStep):
    """Copy the phrases that name P, I, C, O and T out of `text`.

    An anchor is a verbatim part of the question in its spelling. An anchor that the question does
    not hold is asked for again and then dropped, so nothing is invented, and an unnamed part stays
    empty. The rules read English questions. A faulty answer rejects its row.
    """

    max_tokens: int = MAX_TOKENS

    reads: ClassVar[tuple[str, ...]] = ("text",)
    writes: ClassVar[pa.Schema] = pa.schema(
        [pa.field("anchors", ANCHORS, nullable=False), pa.field("reject", REJECT)]
    )
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    auxiliary: ClassVar[bool] = True

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """One prompt a question."""
        return [
            Prompt(
                number,
                "anchors",
                *render(row["text"]),
                PicotAnchors,
                max_tokens=self.max_tokens,
            )
            for number, row in live(batch, self.reads)
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """The words between the cues of a question, typed by the rules of extraction."""
        texts = batch["text"].to_pylist()
        asked = [texts[prompt.row] for prompt in prompts]
        return [
            PicotAnchors(**_grounded(PicotAnchors(**anchors), text)).model_dump_json()
            for text, anchors in zip(asked, rule_anchors(asked), strict=True)
        ]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Fault `invented`: an anchor that the question does not hold."""
        wrong = invented(value, batch["text"][prompt.row].as_py())
        if not wrong:
            return None
        shown = ", ".join(repr(anchor[:_MAX_SHOWN_CHARS]) for anchor in wrong[:_MAX_SHOWN])
        return Fault(
            "invented",
            f"These anchors are not words of the question: {shown}. Copy each anchor from the "
            f"question, or leave its part empty.",
        )

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Keep the anchors that the question holds, as it spells them, each once."""
        texts = batch["text"].to_pylist()
        made = {}
        for prompt, answer in zip(prompts, completions, strict=True):
            if answer.fault is not None:
                made[prompt.row] = rejected("anchors", answer.fault)
            else:
                made[prompt.row] = {"anchors": _grounded(answer.value, texts[prompt.row])}
        return filled(batch, self.writes, made)


def render(question: str) -> tuple[str, str]:
    """System and user text."""
    return PROMPT.system(), PROMPT.user(question=fenced("question", question))


def locate(anchor: str, question: str) -> str | None:
    """The stretch of whole words that is the anchor but for case and blanks, None if none is."""
    words = r"\s+".join(re.escape(word) for word in inert(anchor).split())
    # Match whole words and numbers only: "5" is no anchor of "1.5".
    pattern = rf"(?<![A-Za-z0-9])(?<!\d[.,]){words}(?![A-Za-z0-9])(?![.,]\d)"
    found = re.search(pattern, inert(question), re.IGNORECASE) if words else None
    return question[found.start() : found.end()] if found else None


def invented(anchors: PicotAnchors, question: str) -> list[str]:
    """Anchors that are not in the question, whatever the case and blanks."""
    return [
        anchor
        for _, phrases in anchors.parts()
        for anchor in phrases
        if locate(anchor, question) is None
    ]


def _grounded(anchors: PicotAnchors, question: str) -> dict[str, list[str]]:
    found = {
        part: [locate(anchor, question) for anchor in phrases] for part, phrases in anchors.parts()
    }
    return {part: list(dict.fromkeys(filter(None, phrases))) for part, phrases in found.items()}
