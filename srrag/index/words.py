"""The interface of a word index, whichever engine holds it."""

from __future__ import annotations

import abc
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tantivy

from srrag.core.hits import Ranked
from srrag.model.encoder import TextTokenizer

MAX_TERM_CHARS = 64
TITLE_WEIGHT = 0.25
"""Weight of a title's BM25 score; the text's score has weight 1 (docs/ranking.md)."""


def analyzer() -> tantivy.TextAnalyzer:
    """Return an analyzer: words in lower-case ASCII, without English stop words, stemmed."""
    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(MAX_TERM_CHARS))
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.ascii_fold())
        .filter(tantivy.Filter.stopword("english"))
        .filter(tantivy.Filter.stemmer("english"))
        .build()
    )


class WordIndex(abc.ABC):
    """An opened index of the windows' words: BM25, and how rare each word is."""

    def __init__(self) -> None:
        """Make the analyzer."""
        self._analyzer = analyzer()

    @abc.abstractmethod
    def __len__(self) -> int:
        """Number of windows."""

    @abc.abstractmethod
    def document_frequency(self, term: str) -> int:
        """How many windows hold an indexed term."""

    def search(self, questions: Sequence[str], k: int, grades: Sequence[str] = ()) -> list[Ranked]:
        """Return the k best units of each question by BM25; no grades means all."""
        return [self._search(question, k, grades) for question in questions]

    @abc.abstractmethod
    def _search(self, question: str, k: int, grades: Sequence[str]) -> Ranked:
        """The k best units of one question."""

    def terms(self, text: str) -> list[str]:
        """The terms of a text as they are indexed."""
        return list(self._analyzer.analyze(text))

    def rarities(self, words: Sequence[str], unknown: float) -> npt.NDArray[np.float32]:
        """The IDF of each word's stem, float32 (words,); `unknown` for a word that is left out."""
        stems = [self._analyzer.analyze(word)[:1] for word in words]
        counts = [self.document_frequency(stem[0]) if stem else 0 for stem in stems]
        held = np.array(counts, np.float64)
        idf = np.log1p((len(self) - held + 0.5) / (held + 0.5))
        known = np.array([bool(stem) for stem in stems], np.bool_)
        return np.where(known, idf, unknown).astype(np.float32)


Floats = npt.NDArray[np.float32]

UNKNOWN = 1.0
"""The weight of a token whose word the index leaves out: stop words, very long words."""
_WORD = re.compile(r"[^\W_]+")


def token_weights(texts: Sequence[str], tokenizer: TextTokenizer, index: WordIndex) -> list[Floats]:
    """The weights of each text's content tokens, in order: the IDF of the word that holds each."""
    found = []
    for text, spans in zip(texts, tokenizer.content_spans(texts), strict=True):
        words = [(match.start(), match.end()) for match in _WORD.finditer(text)]
        rarity = index.rarities([text[start:end] for start, end in words], UNKNOWN)
        starts = np.array([start for start, _ in words], np.int64)
        ends = np.array([end for _, end in words], np.int64)
        # A token that begins with a blank belongs to the word at its end.
        place = np.searchsorted(starts, spans[:, 1] - 1, side="right") - 1
        inside = place >= 0
        inside[inside] = spans[inside, 1] - 1 < ends[place[inside]]
        weights = np.full(len(spans), UNKNOWN, np.float32)
        weights[inside] = rarity[place[inside]]
        found.append(weights)
    return found
