"""Content words of a question or sentence, stemmed."""

import re
from functools import cache

import Stemmer

from srrag.algo.stopwords import STOPWORDS

_WORD = re.compile(r"[^\W_]+")


def terms(text: str) -> list[str]:
    """Snowball (English) stems of the content words and numbers of a text, in order."""
    words = [word for word in _WORD.findall(text.lower()) if word not in STOPWORDS]
    stems: list[str] = _stemmer().stemWords(words)
    return stems


@cache
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("english")
