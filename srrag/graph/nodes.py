"""The graph for community detection: core entities (all but attributes) and their relations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from srrag.algo.communities import EvidenceGraph
from srrag.graph.entities import read_rows

DOCUMENT = "Document"
"""Type of the nodes for documents; their names are ids."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """All nodes by id, and the core nodes, which are all entities except attributes."""

    ids: pa.Array
    owner: np.ndarray  # core row of each node, or of its entity
    is_core: np.ndarray  # whether each node is a core node
    core_ids: pa.Array
    names: pa.Array
    types: np.ndarray  # code of each core node's type
    type_names: list[str]
    heads: np.ndarray  # core rows of relations between core nodes
    tails: np.ndarray
    relations: np.ndarray

    @classmethod
    def read(cls, folder: Path) -> Nodes:
        """Read the graph, ordered by id; raises ValueError for an edge to a missing entity."""
        columns = ["entity_id", "name", "type"]
        nodes = in_order(read_rows(folder / "entities.parquet", columns), "entity_id")
        columns = ["kind", "head_id", "relation", "tail_id"]
        edges = read_rows(folder / "edges.parquet", columns)
        ids = nodes["entity_id"].combine_chunks()
        heads, tails = rows_of_ends(edges, ids)
        attribute = np.asarray(pc.equal(edges["kind"], "attribute"))
        parent = owners(heads[attribute], tails[attribute], len(ids))
        is_core = parent == np.arange(len(ids))
        core = np.flatnonzero(is_core)
        place = np.full(len(ids), -1, dtype=np.int64)
        place[core] = np.arange(len(core))
        owner = place[parent]
        kept = nodes.take(pa.array(core)).combine_chunks()
        types, type_names = numbered(kept["type"])
        return cls(
            ids=ids,
            owner=owner,
            is_core=is_core,
            core_ids=kept["entity_id"].combine_chunks(),
            names=kept["name"].combine_chunks(),
            types=types,
            type_names=type_names,
            heads=owner[heads[~attribute]],
            tails=owner[tails[~attribute]],
            relations=numbered(edges["relation"].filter(pa.array(~attribute)))[0],
        )

    @property
    def is_document(self) -> np.ndarray:
        """Whether each core node is a document."""
        code = self.type_names.index(DOCUMENT) if DOCUMENT in self.type_names else -1
        found: np.ndarray = self.types == code
        return found

    def with_documents(self, vectors: np.ndarray) -> np.ndarray:
        """Replace a document's vector by the mean of its neighbours', if it has any."""
        documents = np.flatnonzero(self.is_document)
        if not len(documents):
            return vectors
        place = np.full(len(self.types), -1)
        place[documents] = np.arange(len(documents))
        ends = np.concatenate([self.heads, self.tails])
        others = np.concatenate([self.tails, self.heads])
        counts = (place[ends] >= 0) & (place[others] < 0)
        near, columns = np.unique(others[counts], return_inverse=True)
        entries = np.ones(len(columns), np.float32), (place[ends[counts]], columns)
        linked = sparse.coo_array(entries, shape=(len(documents), len(near)))
        total = sparse.csr_array(linked) @ vectors[near].astype(np.float32)
        length = np.linalg.norm(total, axis=1, keepdims=True)
        found = vectors.copy()
        found[documents] = np.where(
            length > 0, total / np.maximum(length, 1e-12), vectors[documents]
        )
        return found

    def graph(self, vectors: np.ndarray) -> EvidenceGraph:
        """Return the core as arrays."""
        return EvidenceGraph(vectors, self.types, self.heads, self.tails, self.relations)


def in_order(table: pa.Table, key: str) -> pa.Table:
    """Sort a table by its ids, the order in which MergeEntities writes it."""
    ids = table[key].combine_chunks()
    if len(ids) and not pc.all(pc.less(ids[:-1], ids[1:])).as_py():
        return table.sort_by(key)
    return table


def rows_of_ends(edges: pa.Table, ids: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the heads and of the tails."""
    ends = pa.chunked_array([*edges["head_id"].chunks, *edges["tail_id"].chunks], pa.string())
    found = pc.index_in(ends, value_set=ids)
    if found.null_count:
        lost = ends.filter(pc.is_null(found))[0].as_py()
        raise ValueError(f"edges.parquet: {lost!r} is no entity_id of entities.parquet")
    rows = np.asarray(found).astype(np.int64)
    return rows[: len(edges)], rows[len(edges) :]


def owners(heads: np.ndarray, tails: np.ndarray, num_nodes: int) -> np.ndarray:
    """Return the entity of each attribute (the first by id), and for other nodes themselves.

    A node with attributes is an entity, even if it is also an attribute of another.
    """
    parent = np.full(num_nodes, num_nodes, dtype=np.int64)
    np.minimum.at(parent, tails, heads)
    alone = parent == num_nodes
    alone[heads] = True
    parent[alone] = np.flatnonzero(alone)
    return parent


def numbered(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """Number the distinct values in sorted order, so that codes are independent of row order."""
    coded = pc.dictionary_encode(column.combine_chunks())
    values: list[str] = coded.dictionary.to_pylist()
    order = sorted(range(len(values)), key=values.__getitem__)
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    return rank[coded.indices.to_numpy()], [values[place] for place in order]
