"""Graph index: names, triples, communities and walks that lead to the windows of a corpus.

Every file is a memory-mapped array. The names' vectors are links to those of `names`, and their
order is that of the nodes. A document's node has no vector, so the graph contains nothing of a
window's own vector. A triple's vector is the sum of its two ends' and of its relation's, a
community's that of its description in the knowledge tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from srrag.algo.graph_scores import RELATION_WEIGHT, triple_lengths
from srrag.core.step import Build, Place, PreviousVersion
from srrag.core.units import map_tables
from srrag.graph.communities import read_communities
from srrag.graph.knowledge_tree import read_below, read_topics
from srrag.graph.layers import only_grew, read_rows
from srrag.graph.name_vectors import FILES, NameVectors, encode_names
from srrag.index.graph_layers import (
    IndexLayer,
    LayerReader,
    LayerWriter,
    layered,
    read_layers,
    rows_or_none,
)
from srrag.index.graph_names import (
    Aliases,
    GraphNames,
    in_former_order,
    inverted,
    spellings,
)
from srrag.index.graph_walk import DOCUMENT, write_links
from srrag.index.mentions import WindowSpans, mentioned
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.storage.links import link_or_copy
from srrag.storage.lookup import id_keys
from srrag.storage.shards import read_shards, write_shards

Ints = npt.NDArray[np.int64]

CODED = ("node_types", "edge_head_types", "edge_tail_types", "edge_relations", "window_grades")
"""Columns of few distinct words, each stored as an array of codes and a list of words."""
TOPICS = "topics"
_STALE_TOPICS = 0.25


@dataclass(frozen=True, kw_only=True)
class BuildGraphIndex(Build):
    """ENTITIES, EDGES, vectors of names, COMMUNITIES, TREE and windows → the graph channel's index.

    Nodes are the entities with a row among the names; a search reaches an attribute through its
    entity. Walks connect the windows of one paper (equal `pmid`, or one document). An update that
    only adds writes the new windows, triples and spellings as a layer, and encodes only new
    descriptions. Raises ValueError if the vectors of names come from another encoder.
    """

    version: ClassVar[int] = 3

    entities: str = "entities"
    names: str = "names"
    communities: str = "communities"
    tree: str = "tree"
    units: str = "units"
    encoder: Encoder = field(default_factory=Encoder)

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write the arrays, and the ids in row order."""
        return self._write(inputs, out, at, None, grew=False)

    def update(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place, former: PreviousVersion
    ) -> dict[str, float | int | str]:
        """Write the same arrays; those of former layers that stand are links."""
        grew = only_grew(inputs[self.entities][0])
        return self._write(inputs, out, at, former.folder, grew=grew)

    def _write(
        self,
        inputs: Mapping[str, Sequence[Path]],
        out: Path,
        at: Place,
        former: Path | None,
        *,
        grew: bool,
    ) -> dict[str, float | int | str]:
        (graph,), (names,), (groups,), (tree,), (units,) = (
            inputs[name]
            for name in (self.entities, self.names, self.communities, self.tree, self.units)
        )
        nodes = _Nodes(graph, names)
        windows = map_tables(units)[0]
        spans = WindowSpans(
            windows["doc_id"],
            *(np.asarray(windows[name]).astype(np.int64) for name in ("char_start", "char_end")),
        )
        aliases, edges = Aliases.read(nodes.spellings(graph)), _Edges(nodes, graph)
        before = None
        if former is not None and grew:
            before = _Former.of(former, windows["unit_id"], nodes.ids)
        if before is not None:
            spelled, linked = aliases.ordered(before.prints), edges.ordered(before.edge_ids)
            if spelled is None or linked is None:
                before = None
            else:
                aliases, edges = spelled, linked
        now = IndexLayer(len(windows), len(nodes.ids), len(edges.ids), len(aliases.nodes))
        layers = [now] if before is None else layered(before.layers, now)
        writer = LayerWriter(out, layers, None if before is None else former)
        link_names(names, out)
        writer.ids("windows", windows["unit_id"], "windows")
        writer.codes("window_grades", windows["grade"], "windows")
        members, offsets, lost = mentioned(graph / "entities.parquet", nodes.of_entity, spans)
        writer.ragged("window_nodes", members, offsets, "windows")
        for number, rows in enumerate(writer.ranges("windows")):
            _write_windows_of(writer, number, members, offsets[rows.start : rows.stop + 1])
        writer.codes("node_types", nodes.types, "nodes")
        shown = _incidence(members, offsets, len(nodes.ids))
        aliases.write(writer, shown)
        spoken = _encoded(self.encoder, at, edges.relations)
        nodes.check(spoken)
        edge_offsets, edges_lost = edges.write(spoken, spans, writer)
        heads, tails = edges.links()
        steps = write_links(writer, "edges", heads, tails)
        steps += write_links(writer, "aliases", aliases.same_names(), aliases.nodes)
        np.save(out / "window_studies.npy", np.load(units / "window_studies.npy").astype(np.int32))
        stale = 0.0 if before is None else _STALE_TOPICS
        topics = self._write_topics(nodes, groups, tree, at, out, former, stale)
        reached = (np.diff(offsets) > 0) | (np.diff(edge_offsets) > 0)
        return {
            "nodes": len(nodes.ids),
            "aliases": len(aliases.nodes),
            "communities": topics,
            "links": steps,
            "layers": len(layers),
            "windows": len(windows),
            "windows_reached": int(reached.sum()),
            "mentions_outside_windows": lost + edges_lost,
        }

    def _write_topics(
        self,
        nodes: _Nodes,
        groups: Path,
        tree: Path,
        at: Place,
        out: Path,
        former: Path | None,
        stale: float,
    ) -> int:
        """Write the communities' descriptions as vectors, and each node's community and keyword."""
        table = read_topics(tree, ["ref_id", "name", "text"])
        told = pc.binary_join_element_wise(table["name"], table["text"], ". ")
        named = pa.table({"id": table["ref_id"], "name": told})
        (out / TOPICS).mkdir()
        known = None if former is None else former / TOPICS
        encode_names(named, self.encoder, out / TOPICS, at, known, stale=stale)
        of_node = nodes.communities(groups, NameVectors(out / TOPICS).ids)
        np.save(out / "node_communities.npy", of_node.astype(np.int32))
        below = read_below(tree, ["entity"], ["ref_id", "parent_id"])
        keyword = pc.utf8_slice_codeunits(below["parent_id"], 2)
        own = keyword.take(pc.index_in(nodes.ids, value_set=below["ref_id"]))
        rows = rows_or_none(pc.index_in(own, value_set=nodes.ids))
        np.save(out / "node_keywords.npy", rows.astype(np.int32))
        return len(table)


@dataclass(frozen=True)
class _Former:
    """What an index held, in its order, if its windows and nodes are the first of those of now."""

    layers: list[IndexLayer]
    edge_ids: npt.NDArray[np.uint64]
    prints: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, folder: Path, windows: pa.ChunkedArray, nodes: pa.Array) -> _Former | None:
        """Read an index."""
        layers, opened = read_layers(folder), LayerReader(folder)
        last = layers[-1]
        ids = opened.ids("windows")["id"], NameVectors(folder).ids
        now = windows.slice(0, last.windows), pa.chunked_array([nodes.slice(0, last.nodes)])
        if not all(one.equals(other) for one, other in zip(ids, now, strict=True)):
            return None
        edge_ids = id_keys(opened.ids("edges")["id"].to_pylist())
        return cls(layers, edge_ids, GraphNames(opened).prints())


class _Nodes:
    """The entities with a row among the names, in that order, and their rows among all entities."""

    def __init__(self, graph: Path, names: Path) -> None:
        self._vectors = NameVectors(names)
        self.ids = self._vectors.ids.combine_chunks()
        table = read_rows(graph / "entities.parquet", ["entity_id", "name", "type"])
        self.entity_ids = table["entity_id"].combine_chunks()
        self.entity_types = table["type"].combine_chunks()
        self.of_entity: Ints = rows_or_none(pc.index_in(self.entity_ids, value_set=self.ids))
        place = pc.index_in(self.ids, value_set=self.entity_ids)
        if place.null_count:
            raise ValueError(f"{names} names entities that {graph} lacks; run the build again")
        self.names = table["name"].combine_chunks().take(place)
        self.types = self.entity_types.take(place)
        self.is_document = np.asarray(pc.equal(self.types, DOCUMENT))

    def take(self, rows: Ints) -> npt.NDArray[np.float32]:
        """The vectors of some nodes, float32 (rows, d)."""
        return self._vectors.take(rows)

    def check(self, vectors: np.ndarray) -> None:
        """Raise ValueError for vectors of another width than the names'."""
        if vectors.shape[1] != self._vectors.width:
            raise ValueError(
                f"graph: the encoder makes {vectors.shape[1]} numbers, names have "
                f"{self._vectors.width}: both need one encoder"
            )

    def communities(self, groups: Path, ids: pa.ChunkedArray) -> Ints:
        """The last row among `ids` of each node's community, which is the one that counts.

        Raises ValueError if it has none.
        """
        members = read_communities(groups)
        own = members["community_id"].take(pc.index_in(self.ids, value_set=members["entity_id"]))
        last_first = ids.combine_chunks()[::-1]
        rows = pc.index_in(own, value_set=last_first)
        if rows.null_count:
            raise ValueError(f"{groups}: a node's community is not in the tree; build again")
        return len(ids) - 1 - np.asarray(rows).astype(np.int64)

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
    """The triples: rows of their ends, -1 for an attribute."""

    def __init__(self, nodes: _Nodes, graph: Path, order: Ints | None = None) -> None:
        self._nodes, self._graph = nodes, graph
        self._path = graph / "edges.parquet"
        table = read_rows(self._path, ["edge_id", "head_id", "relation", "tail_id"])
        self._order = np.arange(len(table)) if order is None else order
        table = table if order is None else table.take(pa.array(order))
        self.ids = table["edge_id"].combine_chunks()
        self._relations = table["relation"].combine_chunks()
        self.relations: list[str] = sorted(pc.unique(self._relations).to_pylist())
        row_of = nodes.of_entity.astype(np.int32)
        self._found = {
            side: pc.index_in(table[f"{side}_id"], value_set=nodes.entity_ids)
            for side in ("head", "tail")
        }
        for side, found in self._found.items():
            if found.null_count:
                raise ValueError(f"{self._path}: an edge has no {side}; run the build again")
        self._ends = {side: row_of[rows_or_none(found)] for side, found in self._found.items()}

    def ordered(self, former: npt.NDArray[np.uint64]) -> _Edges | None:
        """The same triples, the former ones first, in their order; None if one is gone."""
        order = in_former_order(id_keys(self.ids.to_pylist()), former)
        return None if order is None else _Edges(self._nodes, self._graph, order)

    def links(self) -> tuple[Ints, Ints]:
        """The nodes that each triple links; a node and itself where it links no two."""
        heads, tails = (ends.astype(np.int64) for ends in self._ends.values())
        inside = (heads >= 0) & (tails >= 0)
        return np.where(inside, heads, 0), np.where(inside, tails, 0)

    def write(
        self, spoken: np.ndarray, spans: WindowSpans, writer: LayerWriter
    ) -> tuple[Ints, int]:
        """Write ends, lengths, types and relations of all edges, and the edges of each window.

        `spoken` (relations, d) are the vectors of the relations' names.
        """
        for side, found in self._found.items():
            writer.rows(f"edge_{side}s", self._ends[side], "edges")
            types = self._nodes.entity_types.take(found.combine_chunks())
            writer.codes(f"edge_{side}_types", types, "edges")
        writer.codes("edge_relations", self._relations, "edges")
        words = pa.array(self.relations, pa.string())
        codes = rows_or_none(pc.index_in(self._relations, value_set=words))
        np.save(writer.out / "relation_vectors.npy", spoken.astype(np.float32))
        between = RELATION_WEIGHT * spoken, codes
        ends = self._ends["head"], self._ends["tail"]
        lengths = triple_lengths(self._nodes.take, *ends, between)
        writer.rows("edge_lengths", lengths, "edges")
        writer.ids("edges", self.ids, "edges")
        place = np.empty(len(self.ids), np.int64)
        place[self._order] = np.arange(len(self.ids))
        members, offsets, lost = mentioned(self._path, place, spans)
        writer.ragged("window_edges", members, offsets, "windows")
        return offsets, lost


def link_names(names: Path, out: Path) -> None:
    """Link the vectors of names into an index."""
    shards = read_shards(names)
    for shard in shards:
        for name in FILES:
            link_or_copy(names / shard.file(name), out / shard.file(name))
    write_shards(shards, out)


def _write_windows_of(writer: LayerWriter, number: int, members: np.ndarray, offsets: Ints) -> None:
    """Write the windows of one layer, numbered within it, that mention each of its nodes."""
    own = members[offsets[0] : offsets[-1]]
    nodes, place = np.unique(own, return_inverse=True)
    windows, starts = inverted(place, offsets - offsets[0], len(nodes))
    writer.put("node_windows.nodes", number, nodes)
    writer.put("node_windows", number, windows)
    writer.put("node_windows.offsets", number, starts)


def _incidence(members: np.ndarray, offsets: Ints, num_nodes: int) -> sparse.csr_array:
    """Which nodes each window mentions: ones, (windows, nodes)."""
    ones = np.ones(len(members), np.float32)
    return sparse.csr_array((ones, members, offsets), shape=(len(offsets) - 1, num_nodes))


def _encoded(encoder: Encoder, at: Place, relations: Sequence[str]) -> np.ndarray:
    """Vectors of the relations' names, float32 (n, d); underscores are blanks."""
    model = load(encoder, at.device, at.threads)
    if not relations:
        return np.zeros((0, model.dim), np.float32)
    found: np.ndarray = model.encode([name.replace("_", " ") for name in relations], "query")
    return found.astype(np.float32)
