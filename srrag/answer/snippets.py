"""Verbatim snippets of a window that help to answer the question (SR-RAG, Listing S2)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from srrag.completion import Answer, PromptFile
from srrag.fence import fenced

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "select_snippets.md")
MAX_SNIPPETS = 3
"""Table S3: at most three windows of a chunk."""
MAX_TOKENS = 1024
"""Three snippets of 100 tokens, each with a reason and six flags, are some 600."""


class Snippet(Answer):
    """A stretch of the passage, and which parts of the question it states."""

    snippet: Annotated[str, StringConstraints(min_length=1, max_length=600)]
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
