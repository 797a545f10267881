"""PICOT anchors: the words of a question that name its parts (SR-RAG, section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from srrag.completion import Answer, PromptFile
from srrag.fence import fenced

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "picot_anchors.md")
MAX_TOKENS = 512
"""Five parts of a few phrases of the question, which stand in the answer once."""

Anchor = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=160)]
Anchors = Annotated[list[Anchor], Field(max_length=4)]


class PicotAnchors(Answer):
    """Phrases of the question for each part; an empty list is a part that it does not name."""

    P: Anchors
    I: Anchors  # noqa: E741 (the field's own letter)
    C: Anchors
    O: Anchors  # noqa: E741
    T: Anchors


def render(question: str) -> tuple[str, str]:
    """System and user text."""
    return PROMPT.system(), PROMPT.user(question=fenced("question", question))


def invented(anchors: PicotAnchors, question: str) -> list[str]:
    """Anchors that are not in the question, whatever the case and blanks."""
    asked = _plain(question)
    found: Sequence[str] = [*anchors.P, *anchors.I, *anchors.C, *anchors.O, *anchors.T]
    return [anchor for anchor in found if _plain(anchor) not in asked]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
