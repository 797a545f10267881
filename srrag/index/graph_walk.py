"""The walk over nodes, windows and studies that the graph index holds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

from srrag.algo.random_walk import transitions

Ints = npt.NDArray[np.int64]

DOCUMENT = "Document"
"""Type of the node of a study or guideline itself; its name is a doc_id."""
STUDY_WEIGHT = 12.0
"""Weight of the link between a window and its study; the link to an entity has its rarity."""


def both_ways(first: np.ndarray, second: np.ndarray, size: int) -> sparse.coo_array:
    """Symmetric (size, size) of ones at these pairs; a pair that comes twice counts once."""
    pairs = np.unique(np.concatenate([first, second]).astype(np.int64) * size
                      + np.concatenate([second, first]))  # fmt: skip
    entries = np.ones(len(pairs), np.float32), (pairs // size, pairs % size)
    return sparse.coo_array(entries, shape=(size, size))


def write_walk(
    shown: sparse.csr_array,
    links: sparse.coo_array,
    same: tuple[Ints, Ints],
    study: Ints,
    out: Path,
) -> int:
    """Write the steps of a walk over nodes, windows and studies, in this order of rows.

    Nodes are linked by triples and by a common spelling (weight 1 each), a window and a node that
    it mentions by the node's rarity, a window and its study by STUDY_WEIGHT. A document's node is
    linked by its triples only, a study of one window not at all.
    """
    num_windows, num_nodes = shown.shape
    seen = np.bincount(shown.indices, minlength=num_nodes)
    # Inverse window frequency scaled to 0…1: log(1 + W / w) / log(1 + W).
    rarity = np.log1p(num_windows / np.maximum(seen, 1)) / np.log1p(max(1, num_windows))
    np.save(out / "rarity.npy", rarity.astype(np.float16))
    types = np.load(out / "node_types.npy"), json.loads((out / "node_types.json").read_text())
    named = np.array([word != DOCUMENT for word in types[1]], np.float32)[types[0]]
    mentions = shown @ sparse.diags_array((rarity * named).astype(np.float32))
    sizes = np.bincount(study)
    shared = np.flatnonzero(sizes[study] > 1)
    weight = np.full(len(shared), STUDY_WEIGHT, np.float32)
    own = sparse.csr_array((weight, (shared, study[shared])), shape=(num_windows, len(sizes)))
    between = links + both_ways(*same, num_nodes)
    blocks = [[between, mentions.T, None], [mentions, None, own], [None, own.T, None]]
    whole = sparse.csr_array(sparse.block_array(blocks))
    whole.eliminate_zeros()
    steps = transitions(whole)
    np.save(out / "walk.values.npy", steps.data)
    np.save(out / "walk.columns.npy", steps.indices.astype(np.int32))
    np.save(out / "walk.offsets.npy", steps.indptr.astype(np.int64))
    return int(steps.nnz)
