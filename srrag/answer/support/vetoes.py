"""What no sentence may hold unless what it rests on holds it: contacts, and words to the reader.

These are facts about text, so they hold back a model's sentence whatever a judge says of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

LINK, READER = "link", "reader"

_CONTACT = re.compile(
    r"""
      [a-z]{3,6}://\S+
    | [\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+
    | \bwww\.[\w-]{1,64}(?:\.[\w-]{1,64})+
    | \b(?:[a-z0-9-]{1,63}\.){1,5}(?:(?:com|org|net|info|gov|edu|int|io)\b(?!\.\w)|[a-z]{2,8}/\w)
    | (?<![\w.,])(?:\+|00)\(?[1-9](?:[\s().-]{0,2}\d){7,13}(?![\w%])      # a number abroad
    | (?<![\w.,])\(?0\d{2,4}\)?(?:[\s./-]\d{2,8}){1,4}(?![\w%,.]\d|\w|%)  # at home
    | (?<![\w.,])(?:1-)?\(?[2-9]\d{2}\)?[\s.-]\d{3}[.-]\d{4}(?![\w%])     # of North America
    """,
    re.IGNORECASE | re.VERBOSE,
)
_MIN_DIGITS = 7
_READER = re.compile(r"\b(?:you|your|yours|yourself)\b", re.IGNORECASE)


def veto(text: str, sources: Sequence[str]) -> str:
    """Why a text is held back: LINK, READER or "".

    LINK is a web or e-mail address or a telephone number that no source holds; READER addresses
    the reader where no source does. `sources` are the question and the texts that it rests on.
    """
    said, held = _folded(text), _folded("\n".join(sources))
    digits = re.sub(r"\D", "", held)
    for found in _CONTACT.finditer(said):
        contact = found[0].rstrip(".,;:)]}\"'")
        number = re.sub(r"[\s().+/-]", "", contact)
        if number.isdigit() and (len(number) < _MIN_DIGITS or number in digits):
            continue
        if contact not in held:
            return LINK
    return READER if _READER.search(said) and not _READER.search(held) else ""


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
