"""Central members (keywords) of communities, and the keyword to which each other member belongs."""

from __future__ import annotations

import numpy as np

_MAX_HOPS = 4


def degrees_within(label: np.ndarray, heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Number of edges of each node to other members of its community, int64 (n,)."""
    inside = (label[heads] == label[tails]) & (heads != tails)
    ends = np.concatenate([heads[inside], tails[inside]])
    found: np.ndarray = np.bincount(ends, minlength=len(label))
    return found


def places(group: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Position (from 0) of each row within its group, when sorted by `order`: int64 (n,)."""
    sorted_rows = order[np.argsort(group[order], kind="stable")]
    first = np.flatnonzero(np.diff(group[sorted_rows], prepend=-1))
    lengths = np.diff(np.append(first, len(group)))
    found = np.empty(len(group), dtype=np.int64)
    found[sorted_rows] = np.arange(len(group)) - np.repeat(first, lengths)
    return found


def nearest_keyword(
    label: np.ndarray, keyword: np.ndarray, heads: np.ndarray, tails: np.ndarray
) -> np.ndarray:
    """Position of the keyword to which each node of a community belongs, int64 (n,).

    `keyword` (n,) is the position of a keyword in its community, -1 for other nodes. A node belongs
    to the best keyword among its neighbours, else to the keyword of a neighbour, and so on for 4
    hops. Nodes that no keyword reaches belong to the first keyword.
    """
    inside = label[heads] == label[tails]
    ends = np.concatenate([heads[inside], tails[inside]])
    others = np.concatenate([tails[inside], heads[inside]])
    none = np.iinfo(np.int64).max
    found = np.where(keyword >= 0, keyword, none).astype(np.int64)
    for _ in range(_MAX_HOPS):
        reached = np.full(len(label), none)
        np.minimum.at(reached, ends, found[others])
        fresh = (found == none) & (reached < none)
        if not fresh.any():
            break
        found[fresh] = reached[fresh]
    return np.where(found == none, 0, found)
