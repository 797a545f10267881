"""Rerank by token vectors: MaxSim, alone or blended with the scores of earlier channels."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.fusion import min_max
from srrag.algo.maxsim import best_products, summed
from srrag.core.hits import Offsets, unpack_hits
from srrag.core.step import Place
from srrag.core.units import open_units
from srrag.index.tokens import TokenIndex
from srrag.model.encoder import Encoder
from srrag.rerank.reranker import Reranker, Score, best_of_documents

if TYPE_CHECKING:
    from srrag.model.embed import LoadedEncoder

Weights = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]

MOST_TOKENS = 16
"""Columns that a vector register multiplies at once; lighter tokens do not change the ranking."""


@dataclass(frozen=True, kw_only=True)
class RerankMaxSim(Reranker):
    """Score the first `depth` hits (0: all) by MaxSim, Eq. 15 of sr-rag: coarse ranking.

    With an empty `blend` the score is Eq. 15: the sum over the question's tokens of the best cosine
    with a token of the window. Otherwise it and the scores in the `blend` columns are stretched to
    0…1 within the question (0 where a channel did not find the window) and averaged. Hits below
    `depth` follow in their previous order. The paper does not say how many windows go on (`keep`).
    The index holds the token vectors of the windows.

    `weights` names the column of `WeighTokens` with a weight for each token of the question; ""
    weighs all alike. With weights the `MOST_TOKENS` heaviest tokens of a question count.
    `document` is the share of its document's best score that is added to each window of the head,
    which completes the documents that hold the best windows and leaves the order of documents as it
    is; windows of one PMID are of one document.

    The token vectors of the question come from `EncodeQuestions`, or from an `encoder` here (a
    ColBERT beside the sentence encoder); `encoded` names the stage that encoded the windows with
    it.
    """

    version: ClassVar[int] = 3

    hits: str = "hits_fused"
    blend: tuple[str, ...] = ("hits_sparse", "hits_dense")
    index: str = "tokens"
    depth: int = 100
    weights: str = ""
    document: float = 0.0
    units: str = "units"
    encoder: Encoder | None = None
    encoded: str = "vectors"

    def __post_init__(self) -> None:
        """Raise ValueError for a negative `depth`, `document` or `keep`, or weights of no use."""
        super().__post_init__()
        if self.depth < 0:
            raise ValueError(f"depth is {self.depth}: a number of windows, or 0 for all")
        if not 0 <= self.document < math.inf:
            raise ValueError(f"document is {self.document}: a number of at least 0")
        if self.encoder is not None and self.weights:
            raise ValueError("weights: they are of the question's own tokens, not of `encoder`'s")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The hits, the scores to blend, and the question's token vectors or its text."""
        tokens = ("text",) if self.encoder else ("query_tokens", "query_token_scales")
        return (self.hits, *self.blend, *tokens, *([self.weights] if self.weights else ()))

    def needs(self) -> tuple[str, ...]:
        """The token index, and the units index where documents or tracks count."""
        return (self.index, self.units) if self.document or self.tracks else (self.index,)

    def scorer(self, at: Place) -> Score:
        """Map the token index, and load the encoder if there is one."""
        index = TokenIndex(at.artifact(self.index))
        tokens = functools.partial(question_tokens, dimension=index.dimension)
        if self.encoder is not None:
            from srrag.model.embed import load

            tokens = functools.partial(encoded_tokens, model=load(self.encoder, at.device))
        units = open_units(at, self.units) if self.document else None

        def score(batch: pa.Table, ids: pa.Array, offsets: Offsets) -> Floats:
            rows = np.repeat(np.arange(batch.num_rows), np.diff(offsets))
            place = np.arange(len(rows)) - offsets[rows]
            head = place < self.depth if self.depth else np.ones(len(rows), dtype=bool)
            weights = _heaviest(token_weights(batch, self.weights)) if self.weights else None
            scores = late_scores(
                tokens(batch), ids, offsets, index, depth=self.depth, weights=weights
            )
            if self.blend:
                scores[head] = min_max(scores[head], rows[head])
                scores += sum(_stretched(batch[name], ids, offsets) for name in self.blend)
                scores /= 1 + len(self.blend)
            if units is not None:
                best = best_of_documents(scores[head], rows[head], units, ids.filter(head))
                scores[head] += self.document * best
            # Hits behind the head keep their order, below every score of the head.
            lowest = np.zeros(batch.num_rows)
            np.minimum.at(lowest, rows[head], scores[head])
            scores[~head] = (lowest[rows] - place)[~head]
            return scores

        return score


def _heaviest(weights: Sequence[Weights | None]) -> list[Weights | None]:
    """Leave the weights of the `MOST_TOKENS` heaviest tokens of each question, 0 for the others."""
    found = []
    for weight in weights:
        left = None if weight is None else weight.copy()
        if left is not None:
            left[np.argsort(-left, kind="stable")[MOST_TOKENS:]] = 0
        found.append(left)
    return found


def _stretched(column: pa.ChunkedArray, ids: pa.Array, offsets: Offsets) -> Floats:
    """The scores that a channel gave these windows, stretched to 0…1 within each question."""
    found, scores, ends = unpack_hits(column)
    rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    return channel_scores(ids, offsets, (found, min_max(scores, rows), ends))


@dataclass(frozen=True, slots=True)
class QuestionTokens:
    """The token vectors of a question, `values` × `scale`: int8 (tokens, dimension), (tokens,)."""

    values: npt.NDArray[np.int8]
    scale: Weights

    def __len__(self) -> int:
        return len(self.values)


def late_scores(
    questions: Iterable[QuestionTokens],
    ids: pa.Array,
    offsets: Offsets,
    index: TokenIndex,
    *,
    depth: int = 0,
    mean: bool = False,
    weights: Sequence[Weights | None] | None = None,
) -> Floats:
    """MaxSim of each question's first `depth` hits (0: all), 0 for the other hits: (hits,).

    `weights` holds the weight of each token of each question, 1 without it. `mean` divides by the
    sum of the weights, to compare long and short questions. Raises ValueError if a question has
    other tokens than weights.
    """
    late = np.zeros(len(ids))
    for row, query in enumerate(questions):
        end = offsets[row] + depth if depth else offsets[row + 1]
        some = slice(offsets[row], min(end, offsets[row + 1]))
        held = index.find(ids[some].to_pylist())
        weight = None if weights is None else weights[row]
        total = len(query) if weight is None else float(weight.sum())
        if weight is not None and weight.shape != query.scale.shape:
            raise ValueError(
                f"weight {weight.shape} is not one number for each of {len(query)} tokens"
            )
        terms = query.scale if weight is None else weight * query.scale
        counted = np.flatnonzero(terms)
        asked = query.values[counted]
        best = np.empty((len(asked), len(held.offsets) - 1), np.float32)
        for part, values, ends, scale in held.blocks():
            best[:, part] = best_products(asked, values, ends, scale)
        found = summed(best, terms[counted])
        late[some] = found / (total or 1.0) if mean else found
    return late


def channel_scores(
    ids: pa.Array, offsets: Offsets, channel: tuple[pa.Array, npt.NDArray[Any], Offsets]
) -> Floats:
    """The score of each hit in a channel, 0 where the channel did not find the window: (hits,).

    Hits and channel are flat, each with the offsets of its questions.
    """
    found, scores, ends = channel
    known = np.zeros(len(ids))
    for own, other in zip(pairwise(offsets), pairwise(ends), strict=True):
        place = pc.index_in(ids[slice(*own)], value_set=found[slice(*other)])
        held = np.flatnonzero(np.asarray(place.is_valid()))
        known[own[0] + held] = scores[slice(*other)][np.asarray(place.drop_null())]
    return known


def question_tokens(batch: pa.Table, dimension: int) -> Iterator[QuestionTokens]:
    """The token vectors of each question as `EncodeQuestions` wrote them."""
    rows = zip(batch["query_tokens"], batch["query_token_scales"], strict=True)
    for tokens, scales in rows:
        values = np.frombuffer(tokens.as_py(), dtype=np.int8).reshape(-1, dimension)
        scale = np.frombuffer(scales.as_py(), dtype=np.float16)
        yield QuestionTokens(values, scale.astype(np.float32))


def token_weights(batch: pa.Table, name: str) -> list[Weights | None]:
    """The weights of each question's tokens as `WeighTokens` wrote them; None: all are alike."""
    found = [np.frombuffer(item.as_py(), np.float32) for item in batch[name]]
    return [each if len(each) else None for each in found]


def encoded_tokens(batch: pa.Table, model: LoadedEncoder) -> Iterator[QuestionTokens]:
    """Encode the tokens of each question, one by one, so that no other question affects them."""
    for text in batch["text"].to_pylist():
        _, tokens = model.encode_tokens([text], "query")
        yield QuestionTokens(tokens.values, tokens.scale.astype(np.float32))
