"""The state that community detection saves for its next update: `detection.npz`.

It holds the relations of the core of the graph, so that an update finds the changes by comparison.
Subgraph vectors are computed again, since they follow from the names and the relations.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.algo.affinity import Basis
from srrag.algo.local_moving import DetectionState
from srrag.graph.nodes import Nodes

DETECTION = "detection.npz"


@dataclass(frozen=True, slots=True)
class Continued:
    """A former detection, mapped to the rows of the current graph.

    `touched` bool (n,) marks old entities that gained or lost a relation. `drift` counts the
    entities added, removed or touched since the last full detection, including this change.
    """

    standing: DetectionState
    touched: np.ndarray
    drift: int


def save(path: Path, nodes: Nodes, standing: DetectionState, drift: int) -> None:
    """Write a detection; `drift` counts the entities placed since the last full detection."""
    np.savez_compressed(
        path,
        core=np.packbits(nodes.is_core),
        labels=standing.labels.astype(np.int32),
        near=standing.near.astype(np.int32),
        name_degrees=standing.name_degrees.astype(np.float32),
        means=standing.basis.means,
        directions=standing.basis.directions,
        density=standing.density,
        types=np.array(nodes.type_names, dtype=np.str_),
        heads=nodes.heads.astype(np.int32),
        tails=nodes.tails.astype(np.int32),
        drift=drift,
    )


def resume(path: Path, members: pa.ChunkedArray, nodes: Nodes) -> Continued:
    """Read a detection of a graph with the nodes `members`, mapped to the rows of `nodes`.

    Removed entities are left out; the subgraph vectors are still to be computed (no columns).
    """
    with np.load(path, allow_pickle=False) as file:
        former = {name: file[name] for name in file.files}
    core = np.unpackbits(former["core"], count=len(members)).astype(np.bool_)
    ids = members.filter(pa.array(core)).combine_chunks()
    before = _places(nodes.core_ids, ids)  # the former row of each entity, −1 for new ones
    stood = before >= 0
    after = np.full(len(ids), -1)
    after[before[stood]] = np.flatnonzero(stood)
    rows = before[stood]
    count = len(before)
    labels = np.full(count, -1, dtype=np.int64)
    labels[stood] = former["labels"][rows]
    near = np.repeat(np.arange(count)[:, None], former["near"].shape[1], axis=1)
    left = after[former["near"][rows]]
    near[stood] = np.where(left >= 0, left, near[stood])
    degrees = np.zeros(count)
    degrees[stood] = former["name_degrees"][rows]
    touched = _touched(former, after, nodes) & stood
    came, went = int((~stood).sum()), int((after < 0).sum())
    standing = DetectionState(
        labels=labels,
        places=np.zeros((count, 0), np.float32),
        near=near,
        name_degrees=degrees,
        basis=_basis(former, nodes.type_names),
        density=float(former["density"]),
    )
    drift = int(former["drift"]) + came + went + int(touched.sum())
    return Continued(standing, touched, drift)


def _places(values: pa.Array, among: pa.Array) -> np.ndarray:
    """Return the row of each value in another array, int64; -1 if it is missing."""
    found: np.ndarray = pc.fill_null(pc.index_in(values, value_set=among), -1).to_numpy()
    return found.astype(np.int64)


def _touched(former: dict[str, np.ndarray], after: np.ndarray, nodes: Nodes) -> np.ndarray:
    """Mark entities whose number of relations to some entity changed: bool (n,)."""
    count = len(nodes.core_ids)
    touched = np.zeros(count, dtype=bool)
    heads, tails = after[former["heads"]], after[former["tails"]]
    lost = (heads < 0) | (tails < 0)
    ends = np.concatenate([heads[lost], tails[lost]])
    touched[ends[ends >= 0]] = True
    pairs = np.concatenate(
        [_pairs(heads[~lost], tails[~lost], count), _pairs(nodes.heads, nodes.tails, count)]
    )
    signs = np.where(np.arange(len(pairs)) < (~lost).sum(), -1.0, 1.0)
    keys, inverse = np.unique(pairs, return_inverse=True)
    changed = keys[np.bincount(inverse, weights=signs, minlength=len(keys)) != 0]
    touched[changed // count] = touched[changed % count] = True
    return touched


def _pairs(heads: np.ndarray, tails: np.ndarray, count: int) -> np.ndarray:
    found: np.ndarray = np.minimum(heads, tails) * count + np.maximum(heads, tails)
    return found


def _basis(former: dict[str, np.ndarray], types: list[str]) -> Basis:
    """Extend the former basis to the current types; a new type has no mean yet."""
    place = {name: row for row, name in enumerate(former["types"].tolist())}
    means = np.zeros((len(types), former["means"].shape[1]), dtype=np.float32)
    for row, name in enumerate(types):
        if name in place:
            means[row] = former["means"][place[name]]
    return Basis(means, former["directions"])
