"""Rerank by passage, chapter and big text unit together: RASRAG's tree as a soft prior."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from srrag.algo.fusion import min_max, top_means
from srrag.core.hits import Offsets, unpack_hits
from srrag.core.step import Place
from srrag.index.tokens import TokenIndex
from srrag.rerank.maxsim import channel_scores
from srrag.rerank.reranker import Reranker, Score
from srrag.systems.rasrag.textbook_tree import TreeForest

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class RerankTreePrior(Reranker):
    """Score by flat + `chapter` · chapter + `btu` · BTU, each stretched to 0…1 in a question.

    RASRAG searches one chapter and drops the others. Here the chapter is one piece of evidence: a
    passage outside the best chapter may still win.

    - flat: the mean of the passage's BM25 score (0 where `lexical` did not find it) and its cosine
      with the question, each stretched to 0…1;
    - chapter: the sum of the same two, each as the mean of the chapter's best `top` hits;
    - BTU: the cosine of the question with the BTU's vector, and the best BM25 score in the BTU.

    None of this is in the paper.
    """

    hits: str = "hits_fused"
    lexical: str = "hits_sparse"
    chapter: float = 0.5
    btu: float = 0.5
    top: int = 3
    tree: str = "forest"
    index: str = "tokens"

    def __post_init__(self) -> None:
        """Raise ValueError for weights below 0, or for no hit a chapter."""
        super().__post_init__()
        for name in ("chapter", "btu"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}: a number of at least 0")
        if self.top < 1:
            raise ValueError(f"top is {self.top}: at least one hit of a chapter counts")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """The hits, the BM25 scores, and the question's vector."""
        return (self.hits, self.lexical, "query_vector")

    def needs(self) -> tuple[str, ...]:
        """The tree, and the vectors of its passages."""
        return (self.tree, self.index)

    def scorer(self, at: Place) -> Score:
        """Map the tree and the vectors."""
        forest = TreeForest(at.artifact(self.tree))
        index = TokenIndex(at.artifact(self.index))

        def score(batch: pa.Table, ids: pa.Array, offsets: Offsets) -> Floats:
            if not len(ids):
                return np.zeros(0)
            rows = np.repeat(np.arange(batch.num_rows), np.diff(offsets))
            names = ids.to_pylist()
            btus = forest.btu_of(names)
            queries = _queries(batch)[rows]
            cosines = _products(queries, index.take_vectors(names))
            lexical = channel_scores(ids, offsets, unpack_hits(batch[self.lexical]))
            channels = [min_max(lexical, rows), min_max(cosines, rows)]
            roots = forest.btu_root[btus]
            chapter = np.sum([best_of(each, rows, roots, self.top) for each in channels], axis=0)
            heads = _products(queries, forest.btu_vectors[btus])
            btu = min_max(heads, rows) + best_of(channels[0], rows, btus)
            total: Floats = (channels[0] + channels[1]) / 2
            total += self.chapter * min_max(chapter, rows)
            total += self.btu * min_max(btu, rows)
            return total

        return score


def best_of(scores: Floats, rows: Ints, groups: Ints, top: int = 1) -> Floats:
    """For each hit, the sum of the best `top` scores of its group in its question, over `top`.

    A group with fewer hits counts 0 for the others. All arrays are (hits,).
    """
    pairs = np.stack([rows, groups])
    _, group = np.unique(pairs, axis=1, return_inverse=True)
    group = group.ravel()
    means: Floats = top_means(scores, group, top, int(group.max(initial=-1)) + 1)[group]
    return means


def _queries(batch: pa.Table) -> Matrix:
    """The questions' vectors, (questions, dim)."""
    vectors = batch["query_vector"].to_pylist()
    return np.frombuffer(b"".join(vectors), np.float32).reshape(len(vectors), -1)


def _products(first: Matrix, second: Matrix) -> Floats:
    """The inner product of each pair of rows."""
    found: Floats = np.einsum("ij,ij->i", first, second).astype(np.float64)
    return found
