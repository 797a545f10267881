"""The reasoning of a first answer as the query (Rethinking RAG in medicine, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated

from pydantic import Field, StringConstraints

from srrag.completion import Answer, PromptFile
from srrag.fence import fenced, quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "rationale.md")
MAX_STEPS = 8
MAX_TOKENS = 1024
"""Eight steps of 40 tokens and an answer are some 400, the longest allowed some 900."""

Thought = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]


class Rationale(Answer):
    """Reasoning in steps, then one answer: the label of an option, or a sentence."""

    steps: Annotated[list[Thought], Field(min_length=1, max_length=MAX_STEPS)]
    answer: Annotated[str, StringConstraints(strip_whitespace=True, max_length=300)]

    def query(self) -> str:
        """What is searched for in place of the question: the reasoning alone."""
        return " ".join(self.steps)


def render(question: str, options: Sequence[str] = ()) -> tuple[str, str]:
    """System and user text; options are labelled A, B, …; raises ValueError above 26."""
    if len(options) > len(ascii_uppercase):
        raise ValueError(f"a question with {len(options)} options: at most 26 can be labelled")
    labelled = dict(zip(ascii_uppercase, options, strict=False))
    user = PROMPT.user(question=fenced("question", question), options=quoted(labelled))
    return PROMPT.system(max_steps=MAX_STEPS), user
