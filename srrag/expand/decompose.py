"""Smaller questions under the schema, a kind for each level of its tree (SR-RAG, section 2.3)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from srrag.completion import Answer, PromptFile
from srrag.fence import fenced

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "decompose.md")
MAX_QUESTIONS = 6
MAX_TOKENS = 1024
"""Six questions of 40 tokens with their kind and types are some 500."""

TypeName = Annotated[str, StringConstraints(max_length=48)]


class SubQuestion(Answer):
    """One look-up: an entity, a relation between two, or what a community of evidence says."""

    kind: Literal["node", "triple", "community"]
    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]
    types: Annotated[list[TypeName], Field(max_length=6)]


class Decomposition(Answer):
    """The smaller questions, the most important first."""

    questions: Annotated[list[SubQuestion], Field(min_length=1, max_length=MAX_QUESTIONS)]


def render(question: str, ontology: str) -> tuple[str, str]:
    """System and user text; `ontology` is the schema as lines of text."""
    system = PROMPT.system(ontology=ontology, max_questions=MAX_QUESTIONS)
    return system, PROMPT.user(question=fenced("question", question))
