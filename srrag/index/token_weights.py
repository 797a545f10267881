"""The weight of each token of a text: how rare its word is in the BM25 index."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from srrag.index.words import WordIndex
from srrag.model.tokens import TextTokenizer

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
