"""Content words of a text, stemmed and weighted, the words that say nothing, and its language."""

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


_COMMON_TEXT = {
    "English": "the of and to in is that for with are does was not what on be or by than how do "
    "from it after which",
    "German": "der die das und ist bei von mit den zu ein eine wie für nach im oder dem nicht auf "
    "welche hilft wirkt einer sind",
    "French": "le la les des et est une un dans pour du que avec sur au par ou chez quel après "
    "quelle sont pas",
    "Spanish": "el la los las de y es en un una con para del que por al como se cuál después qué "
    "son más",
    "Italian": "il lo la gli di e è in un una con per del della che dei dopo come quale nei nel "
    "sono più",
    "Portuguese": "o os as de e é em um uma com para do da que dos após como qual no na não são "
    "mais",
    "Dutch": "de het een van en is bij met voor in op te na of wat hoe niet zijn wordt door aan",
}
_COMMON = {name: frozenset(words.split()) for name, words in _COMMON_TEXT.items()}
_SCRIPTS = {
    "Russian": "Ѐ-ӿ", "Greek": "Ͱ-Ͽ", "Arabic": "؀-ۿ",
    "Hebrew": "֐-׿", "Japanese": "぀-ヿ", "Chinese": "一-鿿",
    "Korean": "가-힯", "Hindi": "ऀ-ॿ", "Thai": "฀-๿",
}  # fmt: skip
_IN_SCRIPT = {name: re.compile(f"[{chars}]") for name, chars in _SCRIPTS.items()}
_LETTERS = re.compile(r"[^\W\d_]+")
LEAST_WORDS = 2
SCRIPT_SHARE = 0.3


def guess_language(text: str) -> str:
    """The English name of a language; "" for too few common words, or for a tie of two languages.

    A script that covers SCRIPT_SHARE of the letters decides; otherwise the language with the most
    common words, if there are at least LEAST_WORDS of them.
    """
    words = _LETTERS.findall(text.casefold())
    letters = sum(map(len, words))
    for name, pattern in _IN_SCRIPT.items():
        if letters and len(pattern.findall(text)) >= SCRIPT_SHARE * letters:
            return name
    counts = Counter({name: sum(w in common for w in words) for name, common in _COMMON.items()})
    (best, most), (_, second) = counts.most_common(2)
    return best if most >= LEAST_WORDS and most > second else ""
