"""Scores a caller's texts, which no index holds, by their log odds of relevance to a query."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from srrag.algo.maxsim import maxsim
from srrag.core.step import Place
from srrag.model.encoder import Encoder
from srrag.rerank.bi_encoder import RerankBiEncoder

if TYPE_CHECKING:
    from srrag.model.embed import LoadedEncoder

WEIGHTS = RerankBiEncoder()
"""Weights of cosine and MaxSim for texts without a BM25 score."""


class TextScores:
    """Computes the bi-encoder's logits (see RerankBiEncoder), encoding the texts on the spot."""

    def __init__(self, encoder: Encoder, at: Place) -> None:
        """Bind the encoder; it loads with the first text."""
        self.model = encoder.model
        self._encoder, self._at = encoder, at

    @cached_property
    def _loaded(self) -> LoadedEncoder:
        from srrag.model.embed import load

        return load(self._encoder, self._at.device, self._at.threads)

    def scores(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """The log odds of relevance of each text, shape (len(texts),)."""
        vectors, tokens = self._loaded.encode_tokens([query], "query")
        held, found = self._loaded.encode_tokens(texts, "passage")
        widened = tokens.values.astype(np.float32) * tokens.scale.astype(np.float32)[:, None]
        late = maxsim(widened, found.values, found.offsets, found.scale) / max(1, len(widened))
        cosines = held @ vectors[0]
        logits = WEIGHTS.scale * cosines + WEIGHTS.late * late + WEIGHTS.shift
        return np.asarray(logits, np.float64)
