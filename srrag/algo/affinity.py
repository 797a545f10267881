"""The affinity graph: which entities belong together, by their relations and by their names.

Only pairs that are neighbours in the evidence graph, or nearest neighbours of each other's
subgraph vectors, have an affinity. So all of it is sparse, and grows with the number of entities.
"""

from __future__ import annotations

import faiss
import numpy as np
from scipy import sparse

NEIGHBOURS = 10
HOPS = 3
DIMENSIONS = 128
NAME_WEIGHT = 0.5
"""What a nearest neighbour with the same name and neighbours weighs against one relation."""
_PRIOR = 10.0
"""A type's mean counts as if so many zero vectors belonged to it: rare types keep their names."""
_SAMPLE = 20_000
_EXACT = 20_000
_LIST_ROWS = 256
_PROBES = 8
_BLOCK = 4096


def link_matrix(heads: np.ndarray, tails: np.ndarray, num_nodes: int) -> sparse.csr_array:
    """Count the relations of each pair of entities: symmetric (n, n), without loops."""
    apart = heads != tails
    heads, tails = heads[apart], tails[apart]
    ends = np.concatenate([heads, tails]), np.concatenate([tails, heads])
    counts = sparse.coo_array((np.ones(len(ends[0])), ends), shape=(num_nodes, num_nodes))
    return sparse.csr_array(counts.tocsr())


def subgraph_vectors(
    vectors: np.ndarray, types: np.ndarray, links: sparse.csr_array, hops: int = HOPS
) -> np.ndarray:
    """Place each entity by what surrounds it: unit float32 (n, ≤ DIMENSIONS).

    `vectors` (n, d) are unit vectors of the names, `types` (n,) codes from 0. Words that all names
    of a type share say nothing of the topic: each type's mean is taken off. Then every entity takes
    up the mean of its neighbours, `hops` times (the subgraph of S_s in SR-RAG Eq. 13), so that a
    name that says little ("placebo arm") stands where its study does.
    """
    centred = _principal(_unit(vectors - _type_means(vectors, types)[types]))
    reach = np.asarray((links > 0).sum(axis=1)).ravel()
    mean = sparse.diags_array(1.0 / np.maximum(reach, 1)) @ (links > 0).astype(np.float32)
    for _ in range(hops):
        centred = _unit(centred + (mean @ centred).astype(np.float32))
    return centred


def _type_means(vectors: np.ndarray, types: np.ndarray) -> np.ndarray:
    means = np.zeros((int(types.max(initial=-1)) + 1, vectors.shape[1]), dtype=np.float32)
    for kind in range(len(means)):
        rows = vectors[types == kind]
        means[kind] = rows.sum(axis=0, dtype=np.float64) / (len(rows) + _PRIOR)
    return means


def _unit(rows: np.ndarray) -> np.ndarray:
    """Scale rows to length 1 as float32; zero rows stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: np.ndarray = (rows / np.maximum(lengths, 1e-9)).astype(np.float32, copy=False)
    return unit


def _principal(rows: np.ndarray) -> np.ndarray:
    """Keep the directions of most variance, unit length again; all if there are few."""
    if rows.shape[1] <= DIMENSIONS or not len(rows):
        return rows
    sample = rows[:: max(1, len(rows) // _SAMPLE)].astype(np.float64)
    _, directions = np.linalg.eigh(sample.T @ sample)
    return _unit(rows @ directions[:, -DIMENSIONS:].astype(np.float32))


def nearest(vectors: np.ndarray, k: int = NEIGHBOURS) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest rows of each row without itself: rows (n, k), int64, and cosines (n, k).

    Exact up to 20,000 rows; above, only the 8 nearest of lists of some 256 rows are searched.
    """
    n = len(vectors)
    k = min(k, n - 1)
    if k < 1:
        return np.zeros((n, 0), dtype=np.int64), np.zeros((n, 0), dtype=np.float32)
    index = _index(np.ascontiguousarray(vectors, dtype=np.float32))
    cosines, rows = index.search(vectors, k + 1)
    # A row need not find itself first (equal names), nor at all: then its last one goes.
    other = rows != np.arange(n)[:, None]
    other[other.all(axis=1), -1] = False
    rows, cosines = rows[other].reshape(n, k), cosines[other].reshape(n, k)
    missing = rows < 0  # a sparse list held fewer than k: such a slot is the row itself, at 0
    rows[missing] = np.nonzero(missing)[0]
    cosines[missing] = 0.0
    return rows, cosines


def nearest_to(vectors: np.ndarray, chosen: np.ndarray, k: int = NEIGHBOURS) -> np.ndarray:
    """The k nearest rows of chosen rows, with themselves, exactly: int64 (chosen, ≤ k + 1)."""
    if not len(chosen):
        return np.zeros((0, 0), dtype=np.int64)
    _, rows = faiss.knn(
        vectors[chosen], vectors, min(k + 1, len(vectors)), faiss.METRIC_INNER_PRODUCT
    )
    found: np.ndarray = rows.astype(np.int64)
    return found


def _index(vectors: np.ndarray) -> faiss.Index:
    n, width = vectors.shape
    index: faiss.Index = faiss.IndexFlatIP(width)
    if n > _EXACT:
        index = faiss.IndexIVFFlat(index, width, n // _LIST_ROWS, faiss.METRIC_INNER_PRODUCT)
        index.cp.niter, index.cp.seed, index.cp.max_points_per_centroid = 5, 1, 64
        index.nprobe = _PROBES
        index.train(vectors)
    index.add(vectors)
    return index


def shared_neighbours(rows: np.ndarray) -> np.ndarray:
    """Jaccard of the neighbourhoods (each with its owner) of a row and its neighbours: (n, k).

    What two entities have in common around them tells more than their distance: near copies of a
    name that lie in different places share few neighbours (Jarvis and Patrick 1973).
    """
    n, k = rows.shape
    around = np.concatenate([np.arange(n)[:, None], rows], axis=1)
    common = np.empty((n, k), dtype=np.int32)
    for start in range(0, n, _BLOCK):
        block = slice(start, start + _BLOCK)
        equal = around[block, None, :, None] == around[rows[block]][:, :, None, :]
        common[block] = equal.sum(axis=(2, 3))
    shared: np.ndarray = common / (2 * (k + 1) - common)
    return shared


def affinity_graph(
    links: sparse.csr_array, rows: np.ndarray, cosines: np.ndarray
) -> sparse.csr_array:
    """Each relation weighs 1, each nearest neighbour ½ × cosine × shared neighbours: (n, n).

    Symmetric: a pair takes the larger of its two directions. `rows` and `cosines` are those of
    `nearest`.
    """
    n, k = rows.shape
    near = shared_neighbours(rows) * np.clip(cosines, 0.0, 1.0)
    ends = np.repeat(np.arange(n), k), rows.ravel()
    names = sparse.coo_array((near.ravel(), ends), shape=(n, n)).tocsr()
    names.setdiag(0.0)
    graph = sparse.csr_array(links + NAME_WEIGHT * names.maximum(names.T))
    graph.eliminate_zeros()
    graph.sort_indices()
    return graph
