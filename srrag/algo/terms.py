"""Content words of a question or sentence, stemmed."""

import re
from functools import lru_cache

import Stemmer

from srrag.algo.stopwords import STOPWORDS

_WORD = re.compile(r"[^\W_]+")
_MOST_WORDS = 100_000


def terms(text: str) -> list[str]:
    """Snowball (English) stems of the content words and numbers of a text, in order."""
    return list(_stems(text))


@lru_cache(maxsize=1024)
def _stems(text: str) -> tuple[str, ...]:
    """The stems, kept for the next step: gate, notices and quotes read the same few texts."""
    return tuple(filter(None, map(_STEM.__getitem__, _WORD.findall(text.lower()))))


class _StemOf(dict[str, str]):
    """The stem of each word that was read, "" of a stop word; it forgets all when it is full."""

    def __init__(self) -> None:
        self._stemmer = Stemmer.Stemmer("english", 0)

    def __missing__(self, word: str) -> str:
        if len(self) >= _MOST_WORDS:
            self.clear()
        self[word] = stem = "" if word in STOPWORDS else self._stemmer.stemWord(word)
        return stem


_STEM = _StemOf()
