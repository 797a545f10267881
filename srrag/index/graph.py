"""Graph index: names, triples, communities and walks that lead to the windows of a corpus.

Every file is a memory-mapped array; vectors are int8 with one scale a row. The names' vectors come
from the communities. A document's node has none, so the graph contains nothing of a window's own
vector. A triple's vector is the sum of its two ends' and of its relation's, a community's that of
its description in the knowledge tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy import sparse

from srrag.algo.graph_scores import RELATION_WEIGHT, triple_lengths
from srrag.graph.layers import read_rows
from srrag.index.graph_files import (
    rows_or_none,
    write_codes,
    write_ids,
    write_ragged,
    write_vectors,
)
from srrag.index.graph_names import Aliases, inverted, spellings
from srrag.index.graph_walk import DOCUMENT, both_ways, write_walk
from srrag.index.mentions import WindowSpans, mentioned
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.step import Build, Place
from srrag.units import map_tables

Ints = npt.NDArray[np.int64]

CODED = ("node_types", "edge_head_types", "edge_tail_types", "edge_relations", "window_grades")
"""Columns of few distinct words, each stored as an array of codes and a list of words."""


@dataclass(frozen=True, kw_only=True)
class BuildGraphIndex(Build):
    """ENTITIES, EDGES, COMMUNITIES, TREE and windows → the graph channel's index.

    Nodes are the entities with a vector; a search reaches an attribute through its entity. Walks
    connect the windows of one paper (equal `pmid`, or one document). Raises ValueError if the
    vectors of names come from an encoder of another dimension.
    """

    version: ClassVar[int] = 2

    entities: str = "entities"
    communities: str = "communities"
    tree: str = "tree"
    units: str = "units"
    encoder: Encoder = field(default_factory=Encoder)

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write the arrays, and the ids in row order."""
        (graph,), (groups,), (tree,), (units,) = (
            inputs[name] for name in (self.entities, self.communities, self.tree, self.units)
        )
        nodes = _Nodes(graph, groups)
        windows = map_tables(units)[0]
        spans = WindowSpans(
            windows["doc_id"],
            *(np.asarray(windows[name]).astype(np.int64) for name in ("char_start", "char_end")),
        )
        write_ids(windows["unit_id"], out, "windows")
        write_codes(windows["grade"], out, "window_grades")
        members, offsets, lost = mentioned(graph / "entities.parquet", nodes.of_entity, spans)
        write_ragged(members, offsets, out, "window_nodes")
        write_ragged(*inverted(members, offsets, len(nodes.ids)), out, "node_windows")
        write_ids(nodes.ids, out, "nodes")
        write_codes(nodes.types, out, "node_types")
        write_vectors(nodes.vectors, out, "nodes", nodes.is_document)
        shown = _incidence(members, offsets, len(nodes.ids))
        aliases = Aliases.read(nodes.spellings(graph))
        aliases.write(out, shown)
        edges = _Edges(nodes, graph / "edges.parquet")
        spoken = _encoded(self.encoder, at, edges.relations)
        nodes.check(spoken)
        edge_offsets, edges_lost = edges.write(spoken, spans, out)
        topics = self._write_topics(nodes, tree, at, out)
        steps = write_walk(
            shown, edges.links(), aliases.same_names(), np.load(units / "window_studies.npy"), out
        )
        reached = (np.diff(offsets) > 0) | (np.diff(edge_offsets) > 0)
        return {
            "nodes": len(nodes.ids),
            "aliases": len(aliases.nodes),
            "communities": topics,
            "steps": steps,
            "windows": len(windows),
            "windows_reached": int(reached.sum()),
            "mentions_outside_windows": lost + edges_lost,
        }

    def _write_topics(self, nodes: _Nodes, tree: Path, at: Place, out: Path) -> int:
        """Write the communities' descriptions as vectors, and each node's community and keyword."""
        columns = ["kind", "ref_id", "parent_id", "name", "text"]
        table = pq.read_table(tree / "tree.parquet", columns=columns)
        communities = table.filter(pc.equal(table["kind"], "community"))
        told = pc.binary_join_element_wise(communities["name"], communities["text"], ". ")
        vectors = _encoded(self.encoder, at, told.to_pylist(), "passage")
        write_vectors(vectors, out, "communities")
        ids = communities["ref_id"].combine_chunks()
        write_ids(ids, out, "communities")
        np.save(out / "node_communities.npy", nodes.communities(ids).astype(np.int32))
        below = table.filter(pc.equal(table["kind"], "entity"))
        keyword = pc.utf8_slice_codeunits(below["parent_id"], 2)
        of_node = keyword.take(pc.index_in(nodes.ids, value_set=below["ref_id"].combine_chunks()))
        rows = rows_or_none(pc.index_in(of_node, value_set=nodes.ids))
        np.save(out / "node_keywords.npy", rows.astype(np.int32))
        return len(ids)


class _Nodes:
    """The entities with a vector, in that order, and their rows among all entities."""

    def __init__(self, graph: Path, groups: Path) -> None:
        self._groups = groups
        self.ids = _column(groups / "entity_vectors.parquet", "entity_id")
        table = read_rows(graph / "entities.parquet", ["entity_id", "name", "type"])
        self.entity_ids = table["entity_id"].combine_chunks()
        self.entity_types = table["type"].combine_chunks()
        self.of_entity: Ints = rows_or_none(pc.index_in(self.entity_ids, value_set=self.ids))
        place = pc.index_in(self.ids, value_set=self.entity_ids)
        if place.null_count:
            raise ValueError(f"{groups} names entities that {graph} lacks; run the build again")
        self.names = table["name"].combine_chunks().take(place)
        self.types = self.entity_types.take(place)
        self.vectors: np.ndarray = np.load(groups / "entity_vectors.npy", mmap_mode="r")
        self.is_document = np.asarray(pc.equal(self.types, DOCUMENT))

    def check(self, vectors: np.ndarray) -> None:
        """Raise ValueError for vectors of another width than the names'."""
        if vectors.shape[1] != self.vectors.shape[1]:
            raise ValueError(
                f"graph: the encoder makes {vectors.shape[1]} numbers, names have "
                f"{self.vectors.shape[1]}: both need one encoder"
            )

    def communities(self, ids: pa.Array) -> Ints:
        """The row among `ids` of each node's community; raises ValueError if it has none."""
        members = pq.read_table(self._groups / "communities.parquet")
        own = members["community_id"].take(
            pc.index_in(self.ids, value_set=members["entity_id"].combine_chunks())
        )
        rows = pc.index_in(own, value_set=ids)
        if rows.null_count:
            raise ValueError(f"{self._groups}: a node's community is not in the tree; build again")
        return rows_or_none(rows)

    def spellings(self, graph: Path) -> list[tuple[str, ...]]:
        """All spellings of each node: its name and those of its mentions; none for a document."""
        found: list[set[str]] = [set() for _ in range(len(self.ids))]
        documents = self.is_document.tolist()
        for row, name in enumerate(self.names.to_pylist()):
            found[row].update(() if documents[row] else spellings(name))
        told = read_rows(graph / "entities.parquet", ["mentions.list.element.name"])
        names = told["mentions"].combine_chunks()
        owner = self.of_entity[np.asarray(pc.list_parent_indices(names))]
        told = pa.table({"row": owner, "name": pc.struct_field(names.flatten(), "name")})
        for pair in told.group_by(["row", "name"]).aggregate([]).to_pylist():
            if pair["row"] >= 0 and pair["name"] and not documents[pair["row"]]:
                found[pair["row"]].update(spellings(pair["name"]))
        return [tuple(sorted(names)) for names in found]


class _Edges:
    """The triples: rows of their ends (an attribute's is the one past the last node)."""

    def __init__(self, nodes: _Nodes, path: Path) -> None:
        self._nodes, self._path = nodes, path
        columns = ["edge_id", "head_id", "relation", "tail_id"]
        self._table = read_rows(path, columns)
        self.relations: list[str] = sorted(pc.unique(self._table["relation"]).to_pylist())
        row_of = np.where(nodes.of_entity >= 0, nodes.of_entity, len(nodes.ids)).astype(np.int32)
        self._found = {
            side: pc.index_in(self._table[f"{side}_id"], value_set=nodes.entity_ids)
            for side in ("head", "tail")
        }
        for side, found in self._found.items():
            if found.null_count:
                raise ValueError(f"{path}: an edge has no {side}; run the build again")
        self._ends = {side: row_of[rows_or_none(found)] for side, found in self._found.items()}

    def links(self) -> sparse.coo_array:
        """The nodes that a triple links, once for each direction: ones, (n, n)."""
        n = len(self._nodes.ids)
        heads, tails = self._ends["head"], self._ends["tail"]
        inside = (heads < n) & (tails < n) & (heads != tails)
        return both_ways(heads[inside], tails[inside], n)

    def write(self, spoken: np.ndarray, spans: WindowSpans, out: Path) -> tuple[Ints, int]:
        """Write ends, lengths, types and relations of all edges, and the edges of each window.

        `spoken` (relations, d) are the vectors of the relations' names.
        """
        for side, found in self._found.items():
            np.save(out / f"edge_{side}s.npy", self._ends[side])
            types = self._nodes.entity_types.take(found.combine_chunks())
            write_codes(types, out, f"edge_{side}_types")
        write_codes(self._table["relation"], out, "edge_relations")
        codes = np.load(out / "edge_relations.npy")
        np.save(out / "relation_vectors.npy", spoken.astype(np.float32))
        values = np.load(out / "nodes.vectors.npy", mmap_mode="r")
        scales = np.load(out / "nodes.scales.npy", mmap_mode="r")
        between = RELATION_WEIGHT * spoken, codes
        lengths = triple_lengths(values, scales, self._ends["head"], self._ends["tail"], between)
        np.save(out / "edge_lengths.npy", lengths)
        write_ids(self._table["edge_id"], out, "edges")
        members, offsets, lost = mentioned(self._path, np.arange(len(self._table)), spans)
        write_ragged(members, offsets, out, "window_edges")
        return offsets, lost


def _incidence(members: np.ndarray, offsets: Ints, num_nodes: int) -> sparse.csr_array:
    """Which nodes each window mentions: ones, (windows, nodes)."""
    ones = np.ones(len(members), np.float32)
    return sparse.csr_array((ones, members, offsets), shape=(len(offsets) - 1, num_nodes))


def _encoded(encoder: Encoder, at: Place, texts: Sequence[str], role: Any = "query") -> np.ndarray:
    """Vectors of the texts, float32 (n, d); a relation's underscores are blanks."""
    model = load(encoder, at.device, at.threads)
    if not texts:
        return np.zeros((0, model.dim), np.float32)
    found: np.ndarray = model.encode([text.replace("_", " ") for text in texts], role)
    return found.astype(np.float32)


def _column(path: Path, name: str) -> pa.Array:
    return pq.read_table(path, columns=[name])[name].combine_chunks()
