"""Content words of a question or sentence, stemmed."""

import re
from functools import cache, lru_cache

import Stemmer

from srrag.algo.stopwords import STOPWORDS

_WORD = re.compile(r"[^\W_]+")


def terms(text: str) -> list[str]:
    """Snowball (English) stems of the content words and numbers of a text, in order."""
    return list(_stems(text))


@lru_cache(maxsize=1024)
def _stems(text: str) -> tuple[str, ...]:
    """The stems, kept for the next step: gate, notices and quotes read the same few texts."""
    words = [word for word in _WORD.findall(text.lower()) if word not in STOPWORDS]
    return tuple(_stemmer().stemWords(words))


@cache
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("english")
