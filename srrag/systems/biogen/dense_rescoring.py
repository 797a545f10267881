"""Rescore pooled windows by a query encoder and an article encoder, which may be two models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.core.hits import Offsets
from srrag.core.step import Place
from srrag.core.units import open_units
from srrag.index.tokens import TokenIndex
from srrag.model.encoder import Encoder
from srrag.rerank.reranker import Reranker, Score

Matrix = npt.NDArray[np.float32]
Vectors = Callable[[Sequence[str]], Matrix]
"""Returns the unit vector of each window by its id."""


@dataclass(frozen=True, kw_only=True)
class RescoreDense(Reranker):
    """Score by the cosine with the mean vector of the question's wordings; the best `keep` go on.

    BioGen, section 8.2: topic and narrative stand before the question and before each text of the
    column `versions` ("" for the question alone); the vectors of these are averaged. The submitted
    runs keep 80 and read them again with a cross-encoder.

    `encoder` makes the vectors of queries. With `articles` null, the windows' vectors come from
    `index`; then `encoder` has to be the build's embedder. With a model of its own in `articles`
    (MedCPT's article encoder beside its query encoder), titles and texts of the hits are encoded on
    demand, title and text joined by `separator`.
    """

    hits: str = "hits_pooled"
    keep: int = 80
    versions: str = "reformulations"
    context: bool = True
    """Whether topic and narrative are part of a query."""
    encoder: Encoder = field(default_factory=Encoder)
    articles: Encoder | None = None
    separator: str = "\n"
    index: str = "tokens"
    units: str = "units"

    atol: ClassVar[float] = 1e-4

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The question in its wordings, and the hits."""
        context = ("topic", "narrative") if self.context else ()
        return ("text", *context, *filter(None, (self.versions,)), self.hits)

    def needs(self) -> tuple[str, ...]:
        """The stored vectors, or the texts to encode."""
        return (self.index,) if self.articles is None else (self.units,)

    def scorer(self, at: Place) -> Score:
        """Load the encoders; raises ValueError if their vectors have different lengths."""
        from srrag.model.embed import load

        model = load(self.encoder, at.device, at.threads)
        vectors = self._vectors(at, model.dim)

        def score(batch: pa.Table, ids: pa.Array, offsets: Offsets) -> npt.NDArray[np.float64]:
            queries = [self._queries(row) for row in batch.select(self.reads).to_pylist()]
            distinct = list(dict.fromkeys(text for texts in queries for text in texts))
            known = dict(zip(distinct, model.encode(distinct, "query"), strict=True))
            scores = np.zeros(len(ids))
            for row, texts in enumerate(queries):
                some = slice(offsets[row], offsets[row + 1])
                mean = np.mean([known[text] for text in texts], axis=0, dtype=np.float64)
                size = float(np.linalg.norm(mean)) or 1.0
                if offsets[row + 1] > offsets[row]:
                    scores[some] = vectors(ids[some].to_pylist()) @ (mean / size)
            return scores

        return score

    def _queries(self, row: dict[str, Any]) -> list[str]:
        """Each wording after topic and narrative."""
        told = [row["topic"], row["narrative"]] if self.context else []
        wordings = [row["text"], *(row[self.versions] if self.versions else [])]
        return [" ".join(filter(None, [*told, text])) for text in dict.fromkeys(wordings)]

    def _vectors(self, at: Place, dim: int) -> Vectors:
        if self.articles is None:
            index = TokenIndex(at.artifact(self.index))
            if index.dimension != dim:
                raise ValueError(
                    f"encoder: its vectors have {dim} numbers, those of {self.index!r} "
                    f"{index.dimension}; it has to be the build's embedder unless articles is set"
                )
            return index.take_vectors
        from srrag.model.embed import load

        model = load(self.articles, at.device, at.threads)
        if model.dim != dim:
            raise ValueError(
                f"articles: its vectors have {model.dim} numbers, those of the queries {dim}"
            )
        units = open_units(at, self.units)

        def encoded(ids: Sequence[str]) -> Matrix:
            said = units.take_evidence(ids)
            pairs = zip(said["title"].to_pylist(), said["text"].to_pylist(), strict=True)
            texts = [f"{title}{self.separator}{text}" if title else text for title, text in pairs]
            found: Matrix = model.encode(texts, "passage")
            return found

        return encoded
