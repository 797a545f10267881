"""Whether a question is in another language than the texts that were found for it."""

from __future__ import annotations

from collections.abc import Sequence

from srrag.algo.language import guess_language

MAX_CHARS = 4000


def other_language(question: str, texts: Sequence[str]) -> str:
    """A sentence on the two languages, "" if they are one, or either cannot be told."""
    asked = guess_language(question)
    found = guess_language(" ".join(texts)[:MAX_CHARS])
    if not asked or not found or asked == found:
        return ""
    return f"Your question seems to be in {asked}; the papers here are in {found}. Ask in {found}."
