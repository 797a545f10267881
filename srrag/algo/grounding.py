"""Find a quote in a text: exactly, else regardless of blanks and case."""

from __future__ import annotations

import re


def ground(quote: str, text: str) -> tuple[int, int] | None:
    """Return the offsets [start, end) of the quote in the text, or None.

    An exact match at word borders wins over one that cuts a word. Failing both, the same words in
    the same order match, whatever their case and the blanks between them.
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
