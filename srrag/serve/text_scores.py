"""Scores of texts that stand in no index, for a query: log odds of being relevant."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from srrag.algo.maxsim import maxsim
from srrag.model.encoder import Encoder
from srrag.rerank.bi_encoder import RerankBiEncoder
from srrag.step import Place

if TYPE_CHECKING:
    from srrag.model.embed import LoadedEncoder

WEIGHTS = RerankBiEncoder()
"""Of the cosine and of MaxSim: those for texts without BM25."""


class TextScores:
    """The bi-encoder's logit (see RerankBiEncoder), its vectors made now."""

    def __init__(self, encoder: Encoder, at: Place) -> None:
        """Load nothing before the first text."""
        self.model = encoder.model
        self._encoder, self._at = encoder, at

    @cached_property
    def _loaded(self) -> LoadedEncoder:
        from srrag.model.embed import load

        return load(self._encoder, self._at.device, self._at.threads)

    def scores(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """The score of each text."""
        vectors, tokens = self._loaded.encode_tokens([query], "query")
        held, found = self._loaded.encode_tokens(texts, "passage")
        widened = tokens.values.astype(np.float32) * tokens.scale.astype(np.float32)[:, None]
        late = maxsim(widened, found.values, found.offsets, found.scale) / max(1, len(widened))
        cosines = held @ vectors[0]
        logits = WEIGHTS.scale * cosines + WEIGHTS.late * late + WEIGHTS.shift
        return np.asarray(logits, np.float64)
