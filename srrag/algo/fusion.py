"""Fusion and choice of ranked keys: reciprocal ranks, pools, marginal relevance, group means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

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
    starts = _starts(query, key)
    score = np.add.reduceat(share, starts) if len(starts) else np.zeros(0)
    return rank_scores(query[starts], key[starts], score, decimals=decimals)


def rank_scores(query: np.ndarray, key: np.ndarray, score: np.ndarray, *, decimals: int) -> Ranking:
    """Rank keys within each query by score rounded to `decimals`, then by key."""
    score = np.round(score.astype(np.float64), decimals)
    order = np.lexsort((key, -score, query))
    query, key, score = query[order], key[order], score[order]
    return Ranking(query.astype(np.int64), key.astype(np.int64), score, _places(query))


def min_max(score: np.ndarray, segment: np.ndarray) -> np.ndarray:
    """Stretch scores to 0…1 within each segment (a query), float64.

    `segment` (n,) is sorted. A segment whose scores are all equal becomes 1.
    """
    if len(score) == 0:
        return np.zeros(0)
    score = score.astype(np.float64)
    starts = _starts(segment)
    lengths = np.diff(np.append(starts, len(score)))
    low = np.repeat(np.minimum.reduceat(score, starts), lengths)
    span = np.repeat(np.maximum.reduceat(score, starts), lengths) - low
    flat = span == 0
    return np.where(flat, 1.0, (score - low) / np.where(flat, 1.0, span))


Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Reduce = Literal["max", "rrf", "sum"]
REDUCES = get_args(Reduce)


@dataclass(frozen=True, slots=True)
class Pooled:
    """The keys of each query, best first: sorted by `query`, then `rank` from 1.

    `find` is the position of the find that represents the key, `score` its pooled score.
    """

    query: Ints
    find: Ints
    score: Floats
    rank: Ints


def pool(
    query: Ints,
    source: Ints,
    key: Ints,
    rank: Ints,
    score: Floats,
    *,
    reduce: Reduce = "max",
    k: float = RRF_K,
    decimals: int = 7,
) -> Pooled:
    """Join the finds (n,) of all sources by key, and rank the keys of each query.

    A key counts once in each source, by its best find there. `max` keeps the highest of these
    scores (BioGen, section 7.1), `sum` adds them, and `rrf` adds 1 / (k + the key's rank among the
    keys of the source). The find with the largest share represents its key; of equal ones, that of
    the first source. Scores are rounded to `decimals`, and ties go to the smaller key. `rank`
    counts from 1 in each query and source, where no two finds share one. Raises ValueError for an
    unknown `reduce`.
    """
    if reduce not in REDUCES:
        raise ValueError(f"reduce is {reduce!r}: it can be {', '.join(REDUCES)}")
    first = _firsts(np.lexsort((rank, key, source, query)), query, source, key)
    by_rank = first[np.lexsort((rank[first], source[first], query[first]))]
    share: np.ndarray = score.astype(np.float64)[by_rank]
    if reduce == "rrf":
        share = 1.0 / (k + _places(query[by_rank], source[by_rank]))
    # The largest share of a key comes first, and represents it.
    order = np.lexsort((source[by_rank], -share, key[by_rank], query[by_rank]))
    finds, share = by_rank[order], share[order]
    starts = _starts(query[finds], key[finds])
    total = share[starts]
    if reduce != "max":
        # Float sums depend on their order: from the smallest up, whatever the sources' order.
        total = np.add.reduceat(_ascending(share, starts), starts)
    total, best = np.round(total, decimals), finds[starts]
    ranked = np.lexsort((key[best], -total, query[best]))
    best, total = best[ranked], total[ranked]
    return Pooled(query[best], best, total, _places(query[best]))


def _firsts(order: Ints, *columns: Ints) -> Ints:
    """The first position of each group of equal rows, in this order."""
    found: Ints = order[_starts(*(column[order] for column in columns))]
    return found


def _starts(*columns: Ints) -> Ints:
    """First index of each run of equal rows in sorted columns."""
    new = np.zeros(len(columns[0]), np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)


def _places(*columns: Ints) -> Ints:
    """Place from 1 within each run of equal rows in sorted columns."""
    starts = _starts(*columns)
    sizes = np.diff(np.append(starts, len(columns[0])))
    found: Ints = np.arange(1, len(columns[0]) + 1) - np.repeat(starts, sizes)
    return found


def _ascending(share: Floats, starts: Ints) -> Floats:
    """The shares, which fall within each run, in rising order within it."""
    sizes = np.diff(np.append(starts, len(share)))
    run = np.repeat(np.arange(len(starts)), sizes)
    found: Floats = share[np.lexsort((share, run))]
    return found


_DECIMALS = 9
"""Digits to which values are compared, so that the order of summation decides no tie."""


def mmr(relevance: Floats, similarity: Floats, count: int, weight: float = 0.75) -> Ints:
    """Positions of at most `count` items, in the order in which they are chosen.

    Each step takes the item with the highest weight · relevance − (1 − weight) · the highest
    similarity to an item chosen before (Carbonell and Goldstein 1998; λ = `weight`); ties go to the
    first. `relevance` has shape (items,), `similarity` (items, items). Raises ValueError for a
    weight outside 0…1 or shapes that disagree.
    """
    if not 0.0 <= weight <= 1.0:
        raise ValueError(f"weight {weight} is outside 0…1")
    size = len(relevance)
    if similarity.shape != (size, size):
        raise ValueError(f"similarity has shape {similarity.shape}, not ({size}, {size})")
    nearest = np.zeros(size)
    left = np.ones(size, np.bool_)
    chosen: list[int] = []
    for _ in range(min(count, size)):
        worth = np.round(weight * relevance - (1.0 - weight) * nearest, _DECIMALS)
        best = int(np.argmax(np.where(left, worth, -np.inf)))
        chosen.append(best)
        left[best] = False
        nearest = np.maximum(nearest, similarity[best])
    return np.array(chosen, np.int64)


def cosines(left: Floats, right: Floats) -> Floats:
    """Cosines of unit vectors: (n, d) with (m, d) gives (n, m), within −1…1."""
    found: Floats = np.clip(left @ right.T, -1.0, 1.0)
    return found


def flat_ranges(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Return the numbers of all ranges [start, end), and for each number its range: (n,), (n,)."""
    sizes = ends - starts
    owner = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return starts[owner] + within, owner


def group_means(values: Floats, group: Ints, size: int) -> Floats:
    """The mean of the values of each group, -inf for an empty one: (size,)."""
    totals = np.bincount(group, values, size)
    counts = np.bincount(group, minlength=size)
    return np.where(counts > 0, totals / np.maximum(counts, 1), -np.inf)


def top_means(values: Floats, group: Ints, top: int, size: int) -> Floats:
    """The sum of each group's best `top` values over `top`, so a missing one counts 0: (size,)."""
    order = np.lexsort((-values, group))
    group = group[order]
    starts = np.searchsorted(group, np.arange(size))
    place = np.arange(len(group)) - starts[group]
    kept = place < top
    found: Floats = np.bincount(group[kept], values[order][kept], size) / top
    return found
