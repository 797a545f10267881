"""One round of iterative retrieval: reflect, stop or ask on (SR-RAG, section 2.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import StringConstraints

from srrag.completion import Answer, PromptFile
from srrag.fence import fenced, quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "ircot.md")
MAX_TOKENS = 512
"""Four sentences of 60 tokens and a question of 40."""


class Reflection(Answer):
    """What the evidence says so far, whether it suffices, and what to search for next."""

    reflection: Annotated[str, StringConstraints(strip_whitespace=True, max_length=900)]
    sufficient: bool
    next_question: Annotated[str, StringConstraints(strip_whitespace=True, max_length=300)]

    def asks(self) -> str:
        """The next question, "" if the rounds end here."""
        return "" if self.sufficient else self.next_question


def render(
    question: str,
    ontology: str,
    notes: Sequence[tuple[str, str]],
    evidence: Sequence[Mapping[str, Any]],
) -> tuple[str, str]:
    """System and user text.

    `ontology` is the schema as lines of text, `notes` are former rounds as (question searched
    for, reflection), `evidence` has grade, title and text.
    """
    asked = [quoted({"asked": about, "reflection": note}) for about, note in notes]
    found = [
        quoted({"n": n, **{name: item[name] for name in ("grade", "title", "text")}})
        for n, item in enumerate(evidence, 1)
    ]
    user = PROMPT.user(
        question=fenced("question", question),
        num_notes=len(asked),
        notes="\n".join(asked),
        num_evidence=len(found),
        evidence="\n".join(found),
    )
    return PROMPT.system(ontology=ontology), user
