"""Detect communities of the graph by relations and by names, "dually perceived" (SR-RAG §4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import faiss
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.algo.affinity import Basis
from srrag.algo.communities import Detected, DetectionState, detect, update
from srrag.algo.leiden import modularity
from srrag.core.schema import COMMUNITIES
from srrag.core.spec import segment_id
from srrag.core.step import Build, Place, PreviousVersion
from srrag.graph.name_vectors import ENCODER, NameVectors
from srrag.graph.nodes import Nodes, in_order
from srrag.storage.atomic_write import link_or_copy

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


_FILE = "communities.parquet"


@dataclass(frozen=True, kw_only=True)
class DetectCommunities(Build):
    """ENTITIES, EDGES and vectors of names → COMMUNITIES: every node is in exactly one.

    A community is named by its members. An attribute joins its entity's community, because it has
    no other neighbour and its name ("dose: 5 mg") is no topic; a document, whose name is an id, has
    the mean of its neighbours' vectors. An update places only what changed; once it has placed
    `max_drift` of the entities, the whole graph is detected anew (0: in every update).
    """

    version = 7
    remembers: ClassVar[bool] = True
    """An update continues the previous version, so its manifest names that version."""

    entities: str = "entities"
    names: str = "names"
    max_drift: float = 0.25
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for impossible settings."""
        if not 0 <= self.max_drift <= 1:
            raise ValueError(f"max_drift {self.max_drift} is not between 0 and 1")

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `communities.parquet` and the state for the next update."""
        nodes, vectors = self._read(inputs, out, at)
        return self._whole(nodes, vectors, out)

    def update(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place, former: PreviousVersion
    ) -> dict[str, float | int | str]:
        """Write the same files; the communities continue the previous ones.

        Entities that are new, or gained or lost a relation, are placed; all others stay where they
        were. Once `max_drift` of the entities were placed or removed, or if the names have another
        encoder, the whole graph is detected anew.
        """
        nodes, vectors = self._read(inputs, out, at)
        if (former.folder / ENCODER).read_bytes() != (out / ENCODER).read_bytes():
            return self._whole(nodes, vectors, out)
        held = read_communities(former.folder)
        continued = resume(former.folder / DETECTION, held["entity_id"], nodes)
        if continued.drift >= self.max_drift * len(nodes.core_ids):
            return self._whole(nodes, vectors, out)
        return self._continue(nodes, vectors, continued, out, held)

    def _continue(
        self,
        nodes: Nodes,
        vectors: np.ndarray,
        before: Continued,
        out: Path,
        former: pa.Table,
    ) -> dict[str, float | int | str]:
        """Place the entities that changed."""
        graph = nodes.graph(vectors)
        found = update(graph, before.standing, before.touched)
        kept = self._write(nodes, found, before.drift, out, former)
        return {
            "communities": int(found.labels.max(initial=-1)) + 1,
            "communities_kept": kept,
            "modularity": round(modularity(graph.links, found.labels), 4),
            "placed": int((before.touched | (before.standing.labels < 0)).sum()),
            "drift": round(before.drift / len(nodes.core_ids), 4),
        }

    def _read(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> tuple[Nodes, npt.NDArray[np.float16]]:
        """The graph, and the vectors of its nodes, whose encoder is noted."""
        (folder,), (names,) = inputs[self.entities], inputs[self.names]
        faiss.omp_set_num_threads(at.threads)
        link_or_copy(names / ENCODER, out / ENCODER)
        return read_nodes(folder, names)

    def _whole(self, nodes: Nodes, vectors: np.ndarray, out: Path) -> dict[str, float | int | str]:
        """Detect the communities of the whole graph from nothing."""
        found = detect(nodes.graph(vectors), seed=self.seed)
        self._write(nodes, found.standing, 0, out, COMMUNITIES.empty_table())
        return _figures(found)

    def _write(
        self,
        nodes: Nodes,
        standing: DetectionState,
        drift: int,
        out: Path,
        former: pa.Table,
    ) -> int:
        """Write the communities and the update state; returns the number of unchanged ones."""
        save(out / DETECTION, nodes, standing, drift)
        table, kept = _relation(nodes.ids, standing.labels[nodes.owner], former)
        pq.write_table(table, out / _FILE, compression="zstd")
        return kept


def read_nodes(folder: Path, names: Path) -> tuple[Nodes, npt.NDArray[np.float16]]:
    """Read a graph, and the vectors of its nodes in their order, float16 (n, d).

    Raises ValueError if a node has no row among the names.
    """
    nodes, held = Nodes.read(folder), NameVectors(names)
    rows = pc.index_in(nodes.core_ids, value_set=held.ids)
    if rows.null_count:
        raise ValueError(f"{names}: an entity has no vector; run the build again")
    vectors = held.take(np.asarray(rows).astype(np.int64), np.float16)
    return nodes, nodes.with_documents(vectors)


def read_communities(folder: Path) -> pa.Table:
    """Read COMMUNITIES, by the order of the entities' ids."""
    return in_order(pq.read_table(folder / _FILE), "entity_id")


def _figures(found: Detected) -> dict[str, float | int | str]:
    return {
        "communities": len(np.unique(found.labels)),
        "modularity": round(found.modularity, 4),
        "initial_communities": len(np.unique(found.initial)),
        "initial_modularity": round(found.initial_modularity, 4),
        "merges": found.num_merges,
        "resolution": found.resolution,
    }


def _relation(ids: pa.Array, labels: np.ndarray, former: pa.Table) -> tuple[pa.Table, int]:
    """Name each community by the hash of its members' ids, or take over its former name.

    Returns also the number of communities with a former name.
    """
    order = np.argsort(labels, kind="stable")
    first = np.flatnonzero(np.diff(labels[order], prepend=-1))
    known = _unchanged(ids, labels, former, order, first)
    kept = len(known)
    numbers = labels[order[first]]
    ends = np.append(first, len(order))[1:]
    named: list[str] = []
    for number, start, end in zip(numbers.tolist(), first.tolist(), ends.tolist(), strict=True):
        if number not in known:
            known[number] = segment_id(ids.take(pa.array(order[start:end])).to_pylist())
        named.append(known[number])
    codes = np.repeat(np.arange(len(first)), ends - first)
    of_row = np.empty(len(labels), np.int64)
    of_row[order] = codes
    column = pa.array(named, pa.string()).take(pa.array(of_row))
    return pa.table([ids, column], schema=COMMUNITIES), kept


def _unchanged(
    ids: pa.Array, labels: np.ndarray, former: pa.Table, order: np.ndarray, first: np.ndarray
) -> dict[int, str]:
    """Return the former names of communities whose members are unchanged, by number.

    `order` sorts the rows by community; `first` is where each community begins in it.
    """
    if not len(former) or not len(labels):
        return {}
    coded = pc.dictionary_encode(former["community_id"].combine_chunks())
    codes = coded.indices.to_numpy().astype(np.int64)
    sizes = np.bincount(codes)
    at = pc.index_in(ids, value_set=former["entity_id"])
    rows = pc.fill_null(at, -1).to_numpy(zero_copy_only=False)
    before = np.where(rows >= 0, codes[rows], -1)[order]
    least, most = np.minimum.reduceat(before, first), np.maximum.reduceat(before, first)
    same = (least >= 0) & (least == most) & (np.diff(first, append=len(order)) == sizes[least])
    names = coded.dictionary.take(pa.array(least[same])).to_pylist()
    return dict(zip(labels[order[first[same]]].tolist(), names, strict=True))
