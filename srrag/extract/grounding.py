"""Find a quote in a text: exactly, else regardless of blanks and case."""

from __future__ import annotations

import re


def ground(quote: str, text: str) -> tuple[int, int] | None:
    """Offsets [start, end) of the quote in the text, or None.

    An exact match that does not cut a word is preferred to one that does; after that, words in
    the same order count as a match whatever the blanks between them and whatever their case.
    """
    words = quote.split()
    if not words:
        return None
    cut = text.find(quote)
    at = cut
    while at >= 0:
        end = at + len(quote)
        if not (_inside_word(text, at) or _inside_word(text, end)):
            return at, end
        at = text.find(quote, at + 1)
    if cut >= 0:
        return cut, cut + len(quote)
    match = re.search(r"\s+".join(map(re.escape, words)), text, re.IGNORECASE)
    return match.span() if match else None


def _inside_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum()
