"""Three paraphrases of a question, each searched for by itself (BioGen, section 5, Listing 1)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import StringConstraints

from srrag.completion import Answer, PromptFile
from srrag.fence import fenced, quoted

PROMPT = PromptFile(Path(__file__).parent / "prompts" / "reformulate.md")
MAX_TOKENS = 512
"""Three questions of 60 tokens, and as much again in reserve."""

Question = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=400)]


class Reformulations(Answer):
    """Exactly three versions."""

    clinical: Question
    patient: Question
    aspect: Question

    def distinct(self, question: str) -> list[str]:
        """The versions in order, without repetitions of each other or of the question."""
        versions = dict.fromkeys([question.strip(), self.clinical, self.patient, self.aspect])
        return list(versions)[1:]


def render(question: str, topic: str = "", narrative: str = "") -> tuple[str, str]:
    """System and user text; the submitted runs gave neither topic nor narrative."""
    user = PROMPT.user(
        question=fenced("question", question), topic=quoted(topic), narrative=quoted(narrative)
    )
    return PROMPT.system(), user
