"""The affinity graph: an edge says that two entities belong together by relation or by name.

Only two kinds of pairs have an affinity: neighbours in the evidence graph, and nearest neighbours
by subgraph vector. So all matrices are sparse and grow linearly with the number of entities.
"""

from __future__ import annotations

from dataclasses import dataclass

import faiss
import numpy as np
from scipy import sparse

NEIGHBOURS = 10
HOPS = 3
DIMENSIONS = 128
NAME_WEIGHT = 0.5
"""Weight of a nearest neighbour with the same name and neighbours; a relation weighs 1."""
_PRIOR = 10.0
"""Zero vectors added to each type's mean, so that names of rare types keep their meaning."""
_SAMPLE = 20_000
_EXACT = 20_000
_LIST_ROWS = 256
_PROBES = 8
_BLOCK = 1 << 14
_SEARCHED = 1024
_ROWS = 4096
_TRAINING_ROWS = 64


def link_matrix(heads: np.ndarray, tails: np.ndarray, num_nodes: int) -> sparse.csr_array:
    """Count the relations of each pair of entities: symmetric (n, n) without self-loops."""
    apart = heads != tails
    heads, tails = heads[apart].astype(np.int32), tails[apart].astype(np.int32)
    ends = np.concatenate([heads, tails]), np.concatenate([tails, heads])
    counts = sparse.coo_array((np.ones(len(ends[0])), ends), shape=(num_nodes, num_nodes))
    return sparse.csr_array(counts.tocsr())


@dataclass(frozen=True, slots=True)
class Basis:
    """Map vectors of names to coordinates that separate topics instead of types.

    Words that all names of a type share say nothing of the topic, so the mean of each type
    (`means`, (types, d)) is subtracted. `directions` (d, ≤ DIMENSIONS) are the directions of most
    variance.
    """

    means: np.ndarray
    directions: np.ndarray

    @classmethod
    def fit(cls, vectors: np.ndarray, types: np.ndarray) -> Basis:
        """Fit to unit vectors of names (n, d) and their types (n,), codes from 0."""
        means = _type_means(vectors, types)
        return cls(means, _directions(vectors, means, types))

    def coordinates(self, vectors: np.ndarray, types: np.ndarray) -> np.ndarray:
        """Coordinates of names as unit rows, float32 (n, ≤ DIMENSIONS)."""
        found = np.empty((len(vectors), self.directions.shape[1]), dtype=np.float32)
        for block in _blocks(len(vectors)):
            centred = _unit(vectors[block] - self.means[types[block]])
            found[block] = _unit(centred @ self.directions)
        return found


def subgraph_vectors(
    coordinates: np.ndarray, links: sparse.csr_array, hops: int = HOPS
) -> np.ndarray:
    """Place each entity by its surroundings: unit float32, of the shape of `coordinates`.

    Every entity adds the mean of its neighbours, `hops` times (the subgraph of S_s in SR-RAG Eq.
    13). So a name that says little ("placebo arm") lies close to its study.
    """
    mean = _neighbour_means(links)
    for _ in range(hops):
        moved = mean @ coordinates
        moved += coordinates
        coordinates = _unit(moved)
    return coordinates


def _neighbour_means(links: sparse.csr_array) -> sparse.csr_array:
    linked = (links > 0).astype(np.float32)
    reach = np.asarray(linked.sum(axis=1)).ravel()
    return sparse.csr_array(sparse.diags_array(1.0 / np.maximum(reach, 1)) @ linked)


def _blocks(rows: int) -> list[slice]:
    """Slices that fit the processor's cache; copying the vectors of all names at once is slow."""
    return [slice(start, start + _ROWS) for start in range(0, rows, _ROWS)]


def _type_means(vectors: np.ndarray, types: np.ndarray) -> np.ndarray:
    count = int(types.max(initial=-1)) + 1
    sums = np.zeros((count, vectors.shape[1]))
    for block in _blocks(len(vectors)):
        of_type = np.arange(count)[:, None] == types[block]
        sums += of_type.astype(np.float32) @ vectors[block].astype(np.float32)
    sums /= np.bincount(types, minlength=count)[:, None] + _PRIOR
    return sums.astype(np.float32)


def _unit(rows: np.ndarray) -> np.ndarray:
    """Scale rows to length 1 as float32, in place where they are that; zero rows stay zero."""
    unit = rows.astype(np.float32, copy=False)
    unit /= np.maximum(np.sqrt(np.einsum("nd,nd->n", unit, unit)), 1e-9)[:, None]
    return unit


def _directions(vectors: np.ndarray, means: np.ndarray, types: np.ndarray) -> np.ndarray:
    """The directions of most variance (d, DIMENSIONS), or the identity where d is no larger."""
    if vectors.shape[1] <= DIMENSIONS or not len(vectors):
        return np.eye(vectors.shape[1], dtype=np.float32)
    some = slice(None, None, max(1, len(vectors) // _SAMPLE))
    sample = _unit(vectors[some] - means[types[some]])
    _, directions = np.linalg.eigh((sample.T @ sample).astype(np.float64))
    found: np.ndarray = directions[:, -DIMENSIONS:].astype(np.float32)
    return found


def nearest(vectors: np.ndarray, k: int = NEIGHBOURS) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest other rows of each row: rows int32 (n, k) and cosines float32 (n, k).

    Exact up to 20,000 rows. Above that an approximate index with lists of about 256 rows searches
    the 8 lists nearest to each row.
    """
    n = len(vectors)
    k = min(k, n - 1)
    if k < 1:
        return np.zeros((n, 0), dtype=np.int32), np.zeros((n, 0), dtype=np.float32)
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    cosines, rows = (_search if n <= _EXACT else _search_lists)(vectors, k + 1)
    # Drop each row from its own neighbours. Where it is missing (equal names), drop the last one.
    other = rows != np.arange(n)[:, None]
    other[other.all(axis=1), -1] = False
    rows, cosines = rows[other].astype(np.int32).reshape(n, k), cosines[other].reshape(n, k)
    missing = rows < 0  # a sparse list had fewer than k: fill with the row itself, cosine 0
    rows[missing] = np.nonzero(missing)[0]
    cosines[missing] = 0.0
    return rows, cosines


def _search(vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    cosines, rows = index.search(vectors, k)
    return cosines, rows


def _search_lists(vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Search the 8 lists nearest to each row, a list at a time.

    All rows that search a list meet it in one matrix product. Of another list a row takes only what
    is as near as its k-th neighbour in its own, some 25 rows in all, so hardly anything is sorted.
    """
    n, width = vectors.shape
    centres = faiss.IndexFlatIP(width)
    index = faiss.IndexIVFFlat(centres, width, n // _LIST_ROWS, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.seed, index.cp.max_points_per_centroid = 5, 1, _TRAINING_ROWS
    index.train(vectors)
    _, lists = centres.search(vectors, _PROBES)
    members = np.split(*_grouped(lists[:, 0], index.nlist))
    order, ends = _grouped(lists[:, 1:].ravel(), index.nlist)
    searches = np.split(order // max(1, lists.shape[1] - 1), ends)
    least = np.full(n, -np.inf, dtype=np.float32)
    found: tuple[list[np.ndarray], ...] = [], [], []

    def take(rows: np.ndarray, inside: np.ndarray, cosines: np.ndarray) -> None:
        at = np.flatnonzero(cosines >= least[rows, None])
        row, other = np.divmod(at, len(inside))
        for column, values in zip(
            found, (rows[row], inside[other], cosines.ravel()[at]), strict=True
        ):
            column.append(values)

    for inside in members:
        own = _rounded(vectors[inside] @ vectors[inside].T)
        if len(inside) >= k:
            least[inside] = np.partition(own, -k, axis=1)[:, -k]
        take(inside, inside, own)
    for inside, rows in zip(members, searches, strict=True):
        take(rows, inside, _rounded(vectors[rows] @ vectors[inside].T))
    return _largest(n, k, found)


def _rounded(cosines: np.ndarray) -> np.ndarray:
    """Round in place: on some processors a product's last bits differ with a row's place in it."""
    return cosines.round(6, out=cosines)


def _largest(n: int, k: int, found: tuple[list[np.ndarray], ...]) -> tuple[np.ndarray, np.ndarray]:
    """The k largest cosines of each of n rows, and whose they are; −∞ and −1 where there are less.

    `found` holds pairs to choose from in any order, as pieces of rows, of others and of cosines; it
    is emptied. Equal names, whose cosines are equal, all choose those of the lowest numbers.
    """
    columns = []
    for pieces in found:
        columns.append(np.concatenate(pieces))
        pieces.clear()
    rows, others, cosines = columns
    pairs = sparse.coo_array((cosines, (rows, others)), shape=(n, n)).tocsr()  # sorts by number
    best = np.full((n, k), -np.inf, dtype=np.float32)
    names = np.full((n, k), -1, dtype=np.int32)
    for start in range(0, n, _BLOCK):
        bounds = pairs.indptr[start : start + _BLOCK + 1]
        some = slice(bounds[0], bounds[-1])
        row = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        order = np.argsort(4.0 * row - pairs.data[some], kind="stable")
        place = np.arange(len(row)) - (bounds - bounds[0])[row]
        order, row, place = order[place < k], row[place < k], place[place < k]
        best[start + row, place] = pairs.data[some][order]
        names[start + row, place] = pairs.indices[some][order]
    return best, names


def _grouped(groups: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of groups 0 … count − 1 one after another, and where a next group begins."""
    order = np.argsort(groups, kind="stable").astype(np.int32)
    return order, np.searchsorted(groups[order], np.arange(1, count))


def nearest_in_groups(
    vectors: np.ndarray, chosen: np.ndarray, groups: np.ndarray, k: int = NEIGHBOURS
) -> np.ndarray:
    """The k nearest rows of the chosen rows: int64 (chosen, k), padded with the row itself.

    Each row searches the 8 groups with the nearest centres, and all rows without a group. `groups`
    (n,) holds the group of each row, from 0; −1 means no group.
    """
    if not k:
        return np.zeros((len(chosen), 0), dtype=np.int64)
    members = np.argsort(groups, kind="stable")
    first = np.searchsorted(groups[members], np.arange(-1, int(groups.max(initial=-1)) + 2))
    probes = _nearest_groups(vectors, chosen, groups)
    if first[1]:  # every row also searches the rows without a group, which are sorted first
        probes = np.concatenate([np.full((len(chosen), 1), -1), probes], axis=1)
    width = probes.shape[1] * k
    cosines = np.full((len(chosen), width), -np.inf, dtype=np.float32)
    rows = np.repeat(chosen[:, None], width, axis=1)
    flat = np.argsort(probes, axis=None, kind="stable")
    group_of = probes.ravel()[flat]
    ends = np.flatnonzero(np.diff(group_of, append=group_of[-1:] + 1)) + 1
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=False):
        inside = members[first[group_of[start] + 1] : first[group_of[start] + 2]]
        for at in range(start, end, _SEARCHED):
            who, slot = np.divmod(flat[at : min(end, at + _SEARCHED)], probes.shape[1])
            near = vectors[chosen[who]] @ vectors[inside].T
            near[chosen[who][:, None] == inside] = -np.inf
            top = np.argpartition(-near, min(k, len(inside)) - 1, axis=1)[:, :k]
            place = slot[:, None] * k + np.arange(top.shape[1])
            cosines[who[:, None], place] = near[np.arange(len(who))[:, None], top]
            rows[who[:, None], place] = inside[top]
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(rows, best, axis=1)
    return np.where(np.isinf(np.take_along_axis(cosines, best, axis=1)), chosen[:, None], found)


def _nearest_groups(vectors: np.ndarray, chosen: np.ndarray, groups: np.ndarray) -> np.ndarray:
    held = np.flatnonzero(groups >= 0)
    shape = (int(groups.max(initial=-1)) + 1, len(vectors))
    if not shape[0]:
        return np.zeros((len(chosen), 0), dtype=np.int64)
    entries = np.ones(len(held), np.float32), (groups[held], held)
    centres = _unit(sparse.csr_array(sparse.coo_array(entries, shape=shape)) @ vectors)
    probes = min(_PROBES, shape[0])
    found: np.ndarray = np.argpartition(-(vectors[chosen] @ centres.T), probes - 1, axis=1)
    return found[:, :probes]


def shared_neighbours(rows: np.ndarray, ends: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Jaccard overlap of the neighbourhoods of the two ends of each pair, (pairs,).

    `rows` (n, k) are nearest neighbours; a neighbourhood includes its owner. Shared neighbours tell
    more than distance: near copies of a name in different contexts share few of them (Jarvis and
    Patrick 1973).
    """
    n, k = rows.shape
    around = np.concatenate([np.arange(n)[:, None], rows], axis=1).astype(np.int32)
    common = np.empty(len(ends), dtype=np.int32)
    for start in range(0, len(ends), _BLOCK):
        block = slice(start, start + _BLOCK)
        # The pairs of a block lie side by side, which compares three times as fast as row by row.
        left, right = (np.ascontiguousarray(around[side[block]].T) for side in (ends, others))
        equal = np.zeros(right.shape, dtype=np.uint8)
        for row in left:
            equal += row == right
        common[block] = equal.sum(axis=0)
    shared: np.ndarray = common / (2 * (k + 1) - common)  # float64
    return shared


def name_affinities(
    rows: np.ndarray, ends: np.ndarray, others: np.ndarray, cosines: np.ndarray
) -> sparse.csr_array:
    """½ × cosine × shared neighbours for each entity and its nearest neighbours: (n, n).

    The matrix is symmetric: a pair takes the larger value of its two directions.
    """
    near = shared_neighbours(rows, ends, others)
    near *= np.clip(cosines, 0.0, 1.0)
    names = sparse.coo_array((near, (ends, others)), shape=(len(rows), len(rows))).tocsr()
    names.setdiag(0.0)
    return sparse.csr_array(NAME_WEIGHT * names.maximum(names.T))


def affinity_graph(links: sparse.csr_array, names: sparse.csr_array) -> sparse.csr_array:
    """Add relations (weight 1 each) and name affinities (`name_affinities`): (n, n), symmetric."""
    graph = sparse.csr_array(links + names)
    graph.eliminate_zeros()
    graph.sort_indices()
    return graph


def all_name_affinities(rows: np.ndarray, cosines: np.ndarray) -> sparse.csr_array:
    """`name_affinities` of every entity with its nearest neighbours, as `nearest` returns them."""
    n, k = rows.shape
    ends = np.repeat(np.arange(n, dtype=np.int32), k)
    return name_affinities(rows, ends, rows.ravel(), cosines.ravel())
