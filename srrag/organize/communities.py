"""Communities of the graph: dually perceived, by relations and by names (SR-RAG §4.3)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.algo.communities import SEMANTIC_WEIGHT, Detected, EvidenceGraph, detect
from srrag.ids import segment_id
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.schema import COMMUNITIES
from srrag.step import Build, Former, Place

DOCUMENT = "Document"
"""Type of the nodes that stand for documents; their names are ids."""
VECTORS = "entity_vectors.npy"
VECTOR_IDS = "entity_vectors.parquet"
_BATCH = 8192


@dataclass(frozen=True, kw_only=True)
class DetectCommunities(Build):
    """ENTITIES and EDGES → COMMUNITIES: every node is in exactly one, named by its members.

    An attribute follows its entity: it has no other neighbour, and its name ("dose: 5 mg") is no
    topic. `semantic_weight` is λ of Eq. 13; ε of Eq. 14 is found by description length unless
    `epsilon` says otherwise; above `max_communities` merging goes on, so none is dropped.

    The names' vectors stay beside: `entity_vectors.npy` (float16, a row an entity without
    attributes), whose ids and names are the rows of `entity_vectors.parquet`. A document, whose
    name is an id, has the mean of its neighbours' vectors.
    """

    version = 3

    entities: str = "entities"
    encoder: Encoder = field(default_factory=Encoder)
    semantic_weight: float = SEMANTIC_WEIGHT
    epsilon: float | None = None
    max_communities: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject settings without meaning."""
        if self.semantic_weight < 0:
            raise ValueError(f"semantic_weight {self.semantic_weight} is below 0")
        if self.max_communities is not None and self.max_communities < 1:
            raise ValueError(f"max_communities {self.max_communities} is below 1")

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write `communities.parquet` and the names' vectors."""
        return self._detected(inputs, out, at, {})

    def update(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place, former: Former
    ) -> dict[str, float | int | str]:
        """The same, but names that the version before encoded are taken from there."""
        names = pq.read_table(former.folder / VECTOR_IDS, columns=["name"])["name"].to_pylist()
        vectors = np.load(former.folder / VECTORS, mmap_mode="r", allow_pickle=False)
        return self._detected(inputs, out, at, dict(zip(names, vectors, strict=True)))

    def _detected(
        self,
        inputs: Mapping[str, Sequence[Path]],
        out: Path,
        at: Place,
        known: Mapping[str, np.ndarray],
    ) -> dict[str, float | int | str]:
        (folder,) = inputs[self.entities]
        nodes = _Nodes.read(folder)
        started = time.perf_counter()
        vectors = encode_names(nodes.spoken, self.encoder, at, known)
        encoding_s = time.perf_counter() - started
        vectors = nodes.with_documents(vectors)
        np.save(out / VECTORS, vectors)
        ids = {"entity_id": nodes.core_ids, "name": pa.array(nodes.spoken, pa.string())}
        pq.write_table(pa.table(ids), out / VECTOR_IDS)
        found = detect(
            nodes.graph(vectors),
            semantic_weight=self.semantic_weight,
            epsilon=self.epsilon,
            max_communities=self.max_communities,
            seed=self.seed,
        )
        table = _relation(nodes.ids, found.labels[nodes.owner])
        pq.write_table(table, out / "communities.parquet")
        return {**_figures(found), "encoding_seconds": round(encoding_s, 3)}


def encode_names(
    names: Sequence[str],
    encoder: Encoder,
    at: Place,
    known: Mapping[str, np.ndarray] | None = None,
) -> np.ndarray:
    """Unit vectors of names, float16 (n, dim); each distinct name is encoded once.

    In sorted order, so that a name shares its batch with the same names in every run. Names that
    are `known` are not encoded.
    """
    model = load(encoder, at.device, at.threads)
    known = known or {}
    distinct = sorted(set(names), key=lambda name: (name in known, name))
    row = {name: number for number, name in enumerate(distinct)}
    vectors = np.zeros((len(distinct), model.dim), dtype=np.float16)
    new = sum(name not in known for name in distinct)
    for begin in range(0, new, _BATCH):
        end = min(begin + _BATCH, new)
        vectors[begin:end] = model.encode(distinct[begin:end])
    for number in range(new, len(distinct)):
        vectors[number] = known[distinct[number]]
    faiss.omp_set_num_threads(at.threads)
    rows = np.fromiter((row[name] for name in names), np.int64, len(names))
    found: np.ndarray = vectors[rows]
    return found


@dataclass(frozen=True, slots=True)
class _Nodes:
    """All nodes by id, and those that are entities of their own (the core)."""

    ids: pa.Array
    owner: np.ndarray  # core row of each node: its own, or that of its entity
    core_ids: pa.Array
    names: list[str]
    is_document: np.ndarray
    types: np.ndarray
    heads: np.ndarray  # of the relations between core nodes, as core rows
    tails: np.ndarray
    relations: np.ndarray

    @classmethod
    def read(cls, folder: Path) -> _Nodes:
        """Read the graph, ordered by id; raises ValueError for an edge to no entity."""
        columns = ["entity_id", "name", "type"]
        nodes = pq.read_table(folder / "entities.parquet", columns=columns).sort_by("entity_id")
        columns = ["kind", "head_id", "relation", "tail_id"]
        edges = pq.read_table(folder / "edges.parquet", columns=columns)
        ids = nodes["entity_id"].combine_chunks()
        heads, tails = _rows(edges["head_id"], ids), _rows(edges["tail_id"], ids)
        attribute = np.asarray(pc.equal(edges["kind"], "attribute"))
        parent = _parents(heads[attribute], tails[attribute], len(ids))
        core = np.flatnonzero(parent == np.arange(len(ids)))
        place = np.full(len(ids), -1, dtype=np.int64)
        place[core] = np.arange(len(core))
        owner = place[parent]
        kept = nodes.take(pa.array(core))
        return cls(
            ids=ids,
            owner=owner,
            core_ids=kept["entity_id"].combine_chunks(),
            names=kept["name"].to_pylist(),
            is_document=np.asarray(pc.equal(kept["type"], DOCUMENT)),
            types=_codes(kept["type"]),
            heads=owner[heads[~attribute]],
            tails=owner[tails[~attribute]],
            relations=_codes(edges["relation"].filter(pa.array(~attribute))),
        )

    @property
    def spoken(self) -> list[str]:
        """The names as they are encoded: a document's id says nothing."""
        return [
            DOCUMENT if document else name
            for name, document in zip(self.names, self.is_document, strict=True)
        ]

    def with_documents(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors in which a document has the mean of its neighbours', if it has any."""
        ends = np.concatenate([self.heads, self.tails])
        others = np.concatenate([self.tails, self.heads])
        counts = self.is_document[ends] & ~self.is_document[others]
        total = np.zeros(vectors.shape, np.float32)
        np.add.at(total, ends[counts], vectors[others[counts]].astype(np.float32))
        length = np.linalg.norm(total, axis=1, keepdims=True)
        found = np.where(length > 0, total / np.maximum(length, 1e-12), vectors)
        return found.astype(np.float16)

    def graph(self, vectors: np.ndarray) -> EvidenceGraph:
        """The core as arrays."""
        return EvidenceGraph(
            vectors.astype(np.float32), self.types, self.heads, self.tails, self.relations
        )


def _rows(column: pa.ChunkedArray, ids: pa.Array) -> np.ndarray:
    found = pc.index_in(column, value_set=ids)
    if found.null_count:
        lost = column.filter(pc.is_null(found))[0].as_py()
        raise ValueError(f"edges.parquet: {lost!r} is no entity_id of entities.parquet")
    rows: np.ndarray = np.asarray(found).astype(np.int64)
    return rows


def _parents(heads: np.ndarray, tails: np.ndarray, num_nodes: int) -> np.ndarray:
    """The entity of each attribute (the first by id of several), and of others they themselves.

    A node that owns attributes is an entity, though it may be another's attribute.
    """
    parent = np.full(num_nodes, num_nodes, dtype=np.int64)
    np.minimum.at(parent, tails, heads)
    alone = parent == num_nodes
    alone[heads] = True
    parent[alone] = np.flatnonzero(alone)
    return parent


def _codes(column: pa.ChunkedArray) -> np.ndarray:
    """Number the distinct values in sorted order, so that codes do not depend on row order."""
    values = np.array(column.to_pylist(), dtype=np.str_)
    codes: np.ndarray = np.unique(values, return_inverse=True)[1]
    return codes


def _figures(found: Detected) -> dict[str, float | int | str]:
    return {
        "communities": len(np.unique(found.labels)),
        "modularity": round(found.modularity, 4),
        "initial_communities": len(np.unique(found.initial)),
        "initial_modularity": round(found.initial_modularity, 4),
        "merges": found.num_merges,
        "epsilon": round(found.epsilon, 6),
        "resolution": found.resolution,
    }


def _relation(ids: pa.Array, labels: np.ndarray) -> pa.Table:
    """Name each community by the ids of its members, in order."""
    order = np.argsort(labels, kind="stable")
    ends = np.flatnonzero(np.diff(labels[order])) + 1
    names: list[Any] = ids.to_pylist()
    of_row = np.empty(len(labels), dtype=object)
    for rows in np.split(order, ends):
        if len(rows):
            of_row[rows] = segment_id(names[row] for row in rows)
    return pa.table([ids, pa.array(of_row, pa.string())], schema=COMMUNITIES)
