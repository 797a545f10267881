"""Rescore pooled windows by the cosine with the mean vector of the question's wordings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.core.hits import Offsets
from srrag.core.step import Place
from srrag.index.tokens import TokenIndex
from srrag.model.encoder import Encoder
from srrag.rerank.reranker import Reranker, Score


@dataclass(frozen=True, kw_only=True)
class RescoreDense(Reranker):
    """Score by the cosine with the mean vector of the question's wordings; the best `keep` go on.

    BioGen, section 8.2: topic and narrative stand before the question and before each text of the
    column `versions` ("" for the question alone); the vectors of these are averaged. The submitted
    runs keep 80 and read them again with a cross-encoder.

    `encoder` is the build's embedder, whose vectors of the windows `index` holds; MedCPT's two
    encoders, which the submitted runs used, are one with a `query_model`.
    """

    hits: str = "hits_pooled"
    keep: int = 80
    versions: str = "reformulations"
    encoder: Encoder = field(default_factory=Encoder)
    index: str = "tokens"

    atol: ClassVar[float] = 1e-4

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The question in its wordings, and the hits."""
        return ("text", "topic", "narrative", *filter(None, (self.versions,)), self.hits)

    def needs(self) -> tuple[str, ...]:
        """The stored vectors."""
        return (self.index,)

    def scorer(self, at: Place) -> Score:
        """Load the encoder; raises ValueError if its vectors are not as long as the stored ones."""
        from srrag.model.embed import load

        model, index = (
            load(self.encoder, at.device, at.threads),
            TokenIndex(at.artifact(self.index)),
        )
        if index.dimension != model.dim:
            raise ValueError(
                f"encoder: its vectors have {model.dim} numbers, those of {self.index!r} "
                f"{index.dimension}; it has to be the build's embedder"
            )

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
                    scores[some] = index.take_vectors(ids[some].to_pylist()) @ (mean / size)
            return scores

        return score

    def _queries(self, row: dict[str, Any]) -> list[str]:
        """Each wording after topic and narrative."""
        wordings = [row["text"], *(row[self.versions] if self.versions else [])]
        context = (row["topic"], row["narrative"])
        return [" ".join(filter(None, [*context, text])) for text in dict.fromkeys(wordings)]
