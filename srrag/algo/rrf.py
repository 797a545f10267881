"""Reciprocal rank fusion, and blending scores of different kinds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

RRF_K = 60


@dataclass(frozen=True, slots=True)
class Ranking:
    """Scored keys of many queries, sorted by query, then rank."""

    query: np.ndarray  # int64
    key: np.ndarray  # int64
    score: np.ndarray  # float64
    rank: np.ndarray  # int64, from 1


def reciprocal_rank_fusion(
    query: np.ndarray,
    key: np.ndarray,
    rank: np.ndarray,
    *,
    k: float = RRF_K,
    weight: np.ndarray | None = None,
    decimals: int = 12,
) -> Ranking:
    """Sum weight / (k + rank) over the channels that found a key.

    SR-RAG Eq. 1 with k = 60 (Cormack 2009). `query`, `key` and `rank` (n,) hold one entry for each
    find of a channel, the channels concatenated; `rank` counts from 1; `weight` (n,) defaults to 1.
    Scores are rounded to `decimals`, and ties go to the smaller key. Raises ValueError for a rank
    below 1.
    """
    if len(rank) and rank.min() < 1:
        raise ValueError(f"rank {rank.min()} is below 1")
    share = 1.0 / (k + rank) if weight is None else weight / (k + rank)
    return sum_shares(query, key, share, decimals=decimals)


def sum_shares(query: np.ndarray, key: np.ndarray, share: np.ndarray, *, decimals: int) -> Ranking:
    """Rank keys within each query by the sum of their shares, rounded, then by key."""
    # Float sums depend on their order, so sum from the smallest share up: fused scores must not
    # depend on the order of the channels.
    order = np.lexsort((share, key, query))
    query, key, share = query[order], key[order], share[order]
    starts = _run_starts(query, key)
    score = np.add.reduceat(share, starts) if len(starts) else np.zeros(0)
    return rank_scores(query[starts], key[starts], score, decimals=decimals)


def rank_scores(query: np.ndarray, key: np.ndarray, score: np.ndarray, *, decimals: int) -> Ranking:
    """Rank keys within each query by score rounded to `decimals`, then by key."""
    score = np.round(score.astype(np.float64), decimals)
    order = np.lexsort((key, -score, query))
    query, key, score = query[order], key[order], score[order]
    starts = _run_starts(query)
    lengths = np.diff(np.append(starts, len(query)))
    rank = np.arange(1, len(query) + 1) - np.repeat(starts, lengths)
    return Ranking(query.astype(np.int64), key.astype(np.int64), score, rank.astype(np.int64))


def min_max(score: np.ndarray, segment: np.ndarray) -> np.ndarray:
    """Stretch scores to 0…1 within each segment (a query), float64.

    `segment` (n,) is sorted. A segment whose scores are all equal becomes 1.
    """
    if len(score) == 0:
        return np.zeros(0)
    score = score.astype(np.float64)
    starts = _run_starts(segment)
    lengths = np.diff(np.append(starts, len(score)))
    low = np.repeat(np.minimum.reduceat(score, starts), lengths)
    span = np.repeat(np.maximum.reduceat(score, starts), lengths) - low
    flat = span == 0
    return np.where(flat, 1.0, (score - low) / np.where(flat, 1.0, span))


def blend(first: np.ndarray, second: np.ndarray, weight: float) -> np.ndarray:
    """Mix two scores: (1 - weight) × first + weight × second.

    Raises ValueError for a weight outside 0…1.
    """
    if not 0.0 <= weight <= 1.0:
        raise ValueError(f"weight {weight} is outside 0…1")
    return (1.0 - weight) * first + weight * second


def _run_starts(*columns: np.ndarray) -> np.ndarray:
    """First index of each run of equal rows in sorted columns."""
    if len(columns[0]) == 0:
        return np.zeros(0, dtype=np.int64)
    new = np.zeros(len(columns[0]), dtype=bool)
    new[0] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)
