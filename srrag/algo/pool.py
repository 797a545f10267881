"""Pool the finds of several searches by a key: each key once, with the find that represents it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from srrag.algo.rrf import RRF_K

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
