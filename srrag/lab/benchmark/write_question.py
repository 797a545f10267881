"""Write a question from its seed window alone, with PICOT and certainty (SR-RAG, section 4.5)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import StringConstraints

from srrag.core.rows import Row, filled, live, rejected
from srrag.core.step import LLMStep
from srrag.lab.benchmark.question_rules import rule_questions
from srrag.lab.benchmark.relations import QUESTION, QUESTIONED
from srrag.llm.completion import Answer, Completion, Fault, Prompt, PromptFile
from srrag.llm.delimit import fenced, quoted
from srrag.reading.numbers import lost_numbers
from srrag.reading.quotes import find_quote

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "write_question.md")
STAGE = "questions"

MAX_QUESTION_CHARS = 400
_ELEMENT_CHARS = 200
_ABOUT_ITSELF = re.compile(
    r"\b(?:this|the|these|present|current) (?:present )?(?:stud(?:y|ies)|trial|passage|text|"
    r"document|paper|article|report|review|guideline|authors?|excerpt)\b(?!s? (?:of|on|for|in)\b)",
    re.IGNORECASE,
)

Element = Annotated[str, StringConstraints(max_length=_ELEMENT_CHARS)]


class Picot(Answer):
    """The elements of a question; "" where one is not stated."""

    P: Element
    I: Element  # noqa: E741 (the field's own letter)
    C: Element
    O: Element  # noqa: E741
    T: Element


class SeedQuestion(Answer):
    """A question with the stretch of the window that answers it, both "" if there is none."""

    conclusion: Annotated[str, StringConstraints(max_length=800)]
    question: Annotated[str, StringConstraints(max_length=MAX_QUESTION_CHARS)]
    picot: Picot
    certainty: Literal["sufficient", "uncertain"]
    reason: Annotated[str, StringConstraints(max_length=300)]


@dataclass(frozen=True, kw_only=True)
class WriteQuestion(LLMStep):
    """Writes a question with one prompt a window; its facts come from the window only.

    A conclusion that is not in the window, a number in question or PICOT that the window lacks, and
    a question about "this study" are retried; then the row is rejected. It is also rejected if the
    model finds no clinical conclusion. The rules put mentions of the best concluding sentence into
    a template: that tests the machinery and is no question a clinician would ask.
    """

    reads: ClassVar[tuple[str, ...]] = ("window", "title", "section", "grade")
    writes: ClassVar[pa.Schema] = QUESTIONED
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)

    max_tokens: int = 1024
    """Question, conclusion, five elements and a reason are some 400."""

    def prompts(self, batch: pa.Table) -> list[Prompt]:
        """Render one prompt for each window."""
        return [
            Prompt(
                row,
                STAGE,
                PROMPT.system(),
                PROMPT.user(
                    title=quoted(seed["title"]),
                    section=quoted(seed["section"]),
                    grade=quoted(seed["grade"]),
                    passage=fenced("passage", seed["window"]),
                ),
                SeedQuestion,
                max_tokens=self.max_tokens,
            )
            for row, seed in live(batch, self.reads)
        ]

    def baseline(self, batch: pa.Table, prompts: Sequence[Prompt]) -> list[str]:
        """Fill a template with the mentions of the best concluding sentence."""
        seeds = dict(live(batch, self.reads))
        names = ("window", "section", "title")
        asked = [tuple(seeds[prompt.row][name] for name in names) for prompt in prompts]
        return [SeedQuestion(**found).model_dump_json() for found in rule_questions(asked)]

    def check(self, batch: pa.Table, prompt: Prompt, value: Any) -> Fault | None:
        """Return a fault for content that the window lacks, or elements the question lacks."""
        return _fault(value, batch["window"][prompt.row].as_py())

    def parse(
        self, batch: pa.Table, prompts: Sequence[Prompt], completions: Sequence[Completion]
    ) -> pa.Table:
        """Keep the questions that pass the checks; reject the others."""
        windows = batch["window"].to_pylist()
        made = {
            prompt.row: _row(completion, windows[prompt.row])
            for prompt, completion in zip(prompts, completions, strict=True)
        }
        return filled(batch, QUESTION, made)


def _row(completion: Completion, window: str) -> Row:
    fault = completion.fault or _fault(completion.value, window)
    if fault is not None:
        return rejected(STAGE, fault)
    value: SeedQuestion = completion.value
    span = find_quote(value.conclusion, window)
    if span is None:
        detail = value.reason.strip() or "the window holds no clinical conclusion"
        return rejected(STAGE, Fault("no_conclusion", detail))
    return {
        "text": " ".join(value.question.split()),
        "conclusion": window[slice(*span)],
        "picot": {name: " ".join(text.split()) for name, text in value.picot},
        "certainty": value.certainty,
        "certainty_reason": " ".join(value.reason.split()),
    }


def _fault(value: SeedQuestion, window: str) -> Fault | None:
    if not value.conclusion.strip():
        return None
    if find_quote(value.conclusion, window) is None:
        shown = value.conclusion[:200]
        return Fault("ungrounded", f"This is not in the passage: {shown!r}. Copy exactly.")
    question = value.question.strip()
    if not question.endswith("?") or len(question.split()) < 4:
        return Fault("not_a_question", "Ask one whole question that ends with a question mark.")
    if found := _ABOUT_ITSELF.search(question):
        return Fault(
            "not_self_contained",
            f"The question says {found[0]!r}. Name who and what it is about instead.",
        )
    said = " ".join([question, *(text for _, text in value.picot)])
    if unknown := lost_numbers(said, [window]):
        return Fault(
            "invented", f"The passage does not hold these numbers: {', '.join(unknown[:5])}."
        )
    return None
