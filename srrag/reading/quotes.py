"""Find what a model copied out of a text, however it typed it."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

Span = tuple[int, int]

_TYPED = str.maketrans(
    {
        **dict.fromkeys("\"“”„‟«»″'‘’‚‛`´′", "'"),
        **dict.fromkeys("‐‑‒–—―−⁃", "-"),
        **dict.fromkeys("·∙⋅‧", "."),
        "‹": "<", "›": ">", "≤": "<=", "≥": ">=", "≦": "<=", "≧": ">=", "×": "x", "⁄": "/",
    }
)  # fmt: skip
# A character with the marks that combine with it.
_CLUSTER = re.compile(r".[\u0300-\u036f]*", re.DOTALL)
_CUTS_BEFORE = re.compile(r"(?:\w|\d[.,·])\Z")
_CUTS_AFTER = re.compile(r"\w|[.,·]\d")
_LOOSE_ENDS = " .,;:…"
_UNSPACED = "\u2e80"
"""East Asian writing begins here: it has no blanks, so no place in it cuts a word."""


def find_quote(quote: str, text: str) -> Span | None:
    """Return start and end of a quote, in characters of the text as given; None if it is not there.

    Forms of characters (NFKC), case, dashes, quotation marks, the blanks between words and beside
    signs, and a last stop are forgiven; a quote that cuts a word or a number is not found. The
    exact quote is preferred. Linear in the number of characters.
    """
    if not any(map(str.isalnum, quote)):
        return None
    if (exact := _uncut(quote, text)) is not None:
        return exact
    whole = _folded(quote)[0]
    folded, places = _folded(text)
    for wanted in dict.fromkeys((whole, whole.strip(_LOOSE_ENDS))):
        at = folded.find(wanted)
        while at >= 0:
            span = places[at][0], places[at + len(wanted) - 1][1]
            if not _cuts(text, *span):
                return span
            at = folded.find(wanted, at + 1)
    return None


def _uncut(quote: str, text: str) -> Span | None:
    quote = quote.strip()
    at = text.find(quote)
    while at >= 0:
        if not _cuts(text, at, at + len(quote)):
            return at, at + len(quote)
        at = text.find(quote, at + 1)
    return None


def _cuts(text: str, start: int, end: int) -> bool:
    """Whether a stretch begins or ends within a word or a number."""
    first, last = text[start], text[end - 1]
    if first.isalnum() and first < _UNSPACED and _CUTS_BEFORE.search(text[:start][-2:]):
        return True
    return last.isalnum() and last < _UNSPACED and bool(_CUTS_AFTER.match(text, end))


@lru_cache(maxsize=256)
def _folded(text: str) -> tuple[str, list[Span]]:
    """Return a text as it is compared, and for each of its characters the span that it stands for.

    A blank stays only between two letters or digits.
    """
    letters: list[str] = []
    places: list[Span] = []
    blank: Span | None = None
    for found in _CLUSTER.finditer(text):
        for letter in unicodedata.normalize("NFKC", found[0]).casefold().translate(_TYPED):
            if letter.isspace():
                blank = found.span()
            elif unicodedata.category(letter) not in ("Cf", "Cc"):
                if blank and letters and letters[-1].isalnum() and letter.isalnum():
                    letters.append(" ")
                    places.append(blank)
                blank = None
                letters.append(letter)
                places.append(found.span())
    return "".join(letters), places
