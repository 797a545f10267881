"""Content words of a text, stemmed and weighted, and the words that say nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import Stemmer

Matrix = npt.NDArray[np.float64]


def tfidf(texts: Sequence[Sequence[str]]) -> Matrix:
    """Unit TF-IDF vectors of tokenised texts: float64 (texts, terms), terms in sorted order.

    The weight of a term is its count times ln((1 + n) / (1 + df)) + 1, over n texts of which df
    hold it (the smoothed form of scikit-learn). A text without a term is a row of zeros.
    """
    names = sorted({term for text in texts for term in text})
    place = {name: column for column, name in enumerate(names)}
    counts = np.zeros((len(texts), len(names)))
    for row, text in enumerate(texts):
        for term, count in Counter(text).items():
            counts[row, place[term]] = count
    held = (counts > 0).sum(axis=0)
    weights = counts * (np.log((1 + len(texts)) / (1 + held)) + 1)
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    found: Matrix = np.divide(weights, lengths, out=np.zeros_like(weights), where=lengths > 0)
    return found


STOPWORDS = frozenset(
    """
    a about above after again all also although am among an and any are as at be because been
    before being below between both but by can could did do does doing done due during each
    either etc for from further had has have having he her here him his how however i if in into
    is it its itself just may me might more most much must my neither no nor not of off on once
    one only or other our out over own per s same shall she should since so some such t than that
    the their them then there therefore these they this those through thus to too under until up
    upon us use used uses using very via was we were what when where whereas whether which while
    who whom whose why will with within without would yes you your
    best better evidence following good known list long many often recommend recommended
    """.split()  # noqa: SIM905 (a list of 200 literals hides the words)
)
"""English function words and stock words of clinical questions, listed by the authors."""


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
