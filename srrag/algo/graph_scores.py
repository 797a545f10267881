"""Scores of a graph's nodes, triples and windows for questions; all arrays may be memory-mapped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from srrag.algo.maxsim import take_ragged

_BLOCK_ROWS = 2048
RELATION_WEIGHT = 0.3
"""Weight of a relation's name in the vector of a triple; each of its two ends has weight 1."""


def inner_products(values: np.ndarray, scale: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Inner products of queries (q, d) with the rows of `values` × `scale`: float32 (q, n).

    `values` (n, d) is int8, `scale` (n,) is float. The products of a query are bit-identical
    whatever the other queries are: each query is multiplied alone with blocks that are widened
    once.
    """
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    found = np.empty((len(queries), len(values)), dtype=np.float32)
    wide = np.empty((min(_BLOCK_ROWS, len(values)), values.shape[1]), dtype=np.float32)
    for start in range(0, len(values), _BLOCK_ROWS):
        block = values[start : start + _BLOCK_ROWS]
        np.copyto(wide[: len(block)], block, casting="same_kind")
        for products, query in zip(found, queries, strict=True):
            np.dot(wide[: len(block)], query, out=products[start : start + len(block)])
    found *= scale.astype(np.float32)
    return found


def triple_lengths(
    take: Callable[[np.ndarray], np.ndarray],
    heads: np.ndarray,
    tails: np.ndarray,
    between: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """Length of each triple's vector: head + relation + tail, float32 (m,), never 0.

    `take` returns the vectors of some rows; an end of -1 adds nothing. `between` holds the vectors
    of the relations (r, d) and the relation of each triple (m,).
    """
    relations, codes = between
    found = np.empty(len(heads), dtype=np.float32)
    for start in range(0, len(heads), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        total = relations[codes[block]].astype(np.float32)
        for ends in (heads[block], tails[block]):
            known = ends >= 0
            total[known] += take(ends[known])
        found[block] = np.linalg.norm(total, axis=1)
    return np.where(found > 0, found, np.float32(1))


def triple_scores(
    scores: np.ndarray,
    heads: np.ndarray,
    tails: np.ndarray,
    lengths: np.ndarray,
    between: np.ndarray,
) -> np.ndarray:
    """Cosine of the question with each triple, whose vector is head + relation + tail: (m,).

    It is computed from the scores (n,) of the ends and those `between` (m,) of the relations, so no
    triple is encoded or stored. An end of -1 scores 0.
    """
    padded = np.append(scores, np.float32(0))  # its last value is that of row -1
    found: np.ndarray = (padded[heads] + padded[tails] + between) / lengths
    return found


def word_cover(
    windows: np.ndarray, words: np.ndarray, values: np.ndarray, weights: np.ndarray, size: int
) -> np.ndarray:
    """Weighted mean over a question's words of the best value of each in a window: float32 (size,).

    `windows`, `words` and `values` (m,) are matches: a name in this window has this word, and
    `values` says how well the name fits. `weights` (words,) are those of the words.
    """
    found = np.zeros(size, np.float64)
    if not len(windows):
        return found.astype(np.float32)
    key = windows.astype(np.int64) * len(weights) + words
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    best = np.maximum.reduceat(values[order], starts)
    window, word = np.divmod(key[starts], len(weights))
    np.add.at(found, window, best * weights[word])
    covered: np.ndarray = (found / max(float(weights.sum()), 1e-9)).astype(np.float32)
    return covered


def best_by_segment(scores: np.ndarray, members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Best score of each segment's members, -inf for an empty segment.

    Segment i owns `members[offsets[i]:offsets[i + 1]]`, which are rows of `scores`.
    """
    best = np.full(len(offsets) - 1, -np.inf, dtype=np.float32)
    # reduceat gives an empty segment its successor's first row, so it gets non-empty segments only.
    filled = np.flatnonzero(offsets[1:] > offsets[:-1])
    if len(filled):
        best[filled] = np.maximum.reduceat(scores[members], offsets[filled])
    return best


def best_members(
    scores: np.ndarray, members: np.ndarray, offsets: np.ndarray, chosen: np.ndarray
) -> np.ndarray:
    """Best-scoring member of each chosen segment, the first of equals; -1 if it is empty."""
    places, ends = take_ragged(offsets, chosen)
    inside = members[places]
    owner = np.repeat(np.arange(len(chosen)), np.diff(ends))
    # A stable sort keeps the first of equals in front.
    order = np.lexsort((-scores[inside], owner))
    filled = np.flatnonzero(np.diff(ends))
    found = inside[order[ends[filled]]]
    best = np.full(len(chosen), -1, np.int64)
    best[filled] = np.where(np.isfinite(scores[found]), found, -1)
    return best


def candidates(scores: np.ndarray, k: int, decimals: int) -> np.ndarray:
    """Rows of the k best finite scores and of all scores tied with the last one, unordered."""
    finite = np.flatnonzero(np.isfinite(scores))
    if len(finite) <= k:
        return finite
    rounded = np.round(scores[finite], decimals)
    kept: np.ndarray = finite[rounded >= np.partition(rounded, -k)[-k]]
    return kept


def segments(
    owner: np.ndarray, member: np.ndarray, num_owners: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sorted distinct members (int32) of each owner, and offsets int64 (owners + 1,)."""
    width = int(member.max(initial=0)) + 1
    pairs = np.unique(owner.astype(np.int64) * width + member)
    offsets = np.searchsorted(pairs // width, np.arange(num_owners + 1))
    return (pairs % width).astype(np.int32), offsets.astype(np.int64)
