"""Hypothetical passages that keep to the question's PICOT (SR-RAG, section 4.4, Listing S1)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from srrag.completion import Answer, PromptFile
from srrag.fence import fenced, quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "hyde.md")
NUM_PASSAGES = 3
TEMPERATURE = 0.3
"""Table S3: three passages a question, at this temperature for other words."""
MAX_TOKENS = 1024
"""Eight sentences of 40 tokens are some 350, the longest that the schema allows some 800."""

Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class HydePassage(Answer):
    """A passage of 5 to 8 sentences (Listing S1)."""

    sentences: Annotated[list[Sentence], Field(min_length=5, max_length=8)]

    def text(self) -> str:
        """The passage as it is encoded."""
        return " ".join(self.sentences)


def render(question: str, anchors: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """System and user text; `anchors` maps P, I, C, O and T to phrases, or to none."""
    given = {part: list(anchors.get(part, ())) for part in "PICOT"}
    user = PROMPT.user(question=fenced("question", question), anchors=quoted(given))
    return PROMPT.system(), user


def invented_numbers(passage: str, question: str) -> list[str]:
    """Numbers of the passage that the question does not hold."""
    asked = set(_NUMBER.findall(question))
    return [number for number in dict.fromkeys(_NUMBER.findall(passage)) if number not in asked]
