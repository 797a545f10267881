"""Graph index: names, triples, communities and walks that lead to the windows of a corpus.

Every file is a memory-mapped array. The names' vectors are links to those of `names`, and their
order is that of the nodes. A document's node has no vector, so the graph contains nothing of a
window's own vector. A triple's vector is the sum of its two ends' and of its relation's, a
community's that of its description in the knowledge tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy import sparse

from srrag.algo.graph_scores import RELATION_WEIGHT, segments, triple_lengths
from srrag.core.step import IncrementalBuild, Place, PreviousVersion
from srrag.core.units import map_tables
from srrag.graph.communities import read_communities
from srrag.graph.entities import read_rows
from srrag.graph.knowledge_tree import read_below, read_topics
from srrag.graph.name_vectors import FILES, NameVectors, encode_names
from srrag.index.graph_names import Aliases, inverted, spellings
from srrag.index.graph_walk import (
    DOCUMENT,
    rows_or_none,
    write_codes,
    write_ids,
    write_links,
    write_ragged,
)
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.storage.atomic_write import link_or_copy
from srrag.storage.mapped_table import read_shards, write_shards

_BATCH_ROWS = 32_768
_DOCUMENT_BITS = 32


class WindowSpans:
    """The spans of all windows, sorted by document and start."""

    def __init__(self, doc_ids: pa.ChunkedArray, starts: Ints, ends: Ints) -> None:
        """Sort the windows, given by row as document and span [start, end)."""
        self.documents = pc.unique(doc_ids)
        document = np.asarray(pc.index_in(doc_ids, value_set=self.documents)).astype(np.int64)
        self.rows = np.lexsort((ends, starts, document))
        base = document[self.rows] << _DOCUMENT_BITS
        self._starts = base + starts[self.rows]
        # The furthest end so far, because the ends of nested windows do not rise.
        self._reach = np.maximum.accumulate(base + ends[self.rows])
        self._ends = base + ends[self.rows]

    def overlapping(self, doc_ids: pa.Array, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """Return pairs (mention, window) of overlapping spans; an empty span is a position."""
        found = pc.index_in(doc_ids, value_set=self.documents)
        mention = np.flatnonzero(np.asarray(found.is_valid()))
        base = np.asarray(found.drop_null()).astype(np.int64) << _DOCUMENT_BITS
        first = base + starts[mention]
        last = base + np.maximum(ends[mention], starts[mention] + 1)
        low = np.searchsorted(self._reach, first, "right")
        count = np.maximum(np.searchsorted(self._starts, last, "left") - low, 0)
        pair = np.repeat(np.arange(len(mention)), count)
        place = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count) + low[pair]
        real = self._ends[place] > first[pair]
        return mention[pair[real]], self.rows[place[real]]


def mentioned(
    path: Path, rows: Ints, spans: WindowSpans
) -> tuple[npt.NDArray[np.int32], Ints, int]:
    """Return what each window mentions: members of a table, offsets, number of lost mentions.

    The table of the graph at `path` has a column `mentions`. `rows` numbers its rows, -1 to
    leave a row out.
    """
    owners, members, lost, start = [], [], 0, 0
    for mentions in _mention_batches(path):
        number = rows[start : start + len(mentions)]
        start += len(mentions)
        flat = mentions.flatten()
        of_row = number[np.asarray(pc.list_parent_indices(mentions))]
        span = [
            np.asarray(pc.struct_field(flat, name)).astype(np.int64)
            for name in ("char_start", "char_end")
        ]
        mention, window = spans.overlapping(pc.struct_field(flat, "doc_id"), *span)
        lost += int((of_row >= 0).sum() - (of_row[np.unique(mention)] >= 0).sum())
        kept = of_row[mention] >= 0
        owners.append(window[kept])
        members.append(of_row[mention[kept]])
    none = np.zeros(0, np.int64)
    found, offsets = segments(
        np.concatenate([none, *owners]), np.concatenate([none, *members]), len(spans.rows)
    )
    return found, offsets, lost


def _mention_batches(path: Path) -> Iterator[pa.ListArray]:
    for batch in pq.ParquetFile(path).iter_batches(_BATCH_ROWS, columns=["mentions"]):
        yield batch["mentions"]


Ints = npt.NDArray[np.int64]

CODED = ("node_types", "edge_relations", "window_grades")
"""Columns of few distinct words, each stored as an array of codes and a list of words."""
TOPICS = "topics"


@dataclass(frozen=True, kw_only=True)
class BuildGraphIndex(IncrementalBuild):
    """ENTITIES, EDGES, names, COMMUNITIES, the tree and windows → the graph channel's index.

    Nodes are the entities with a row among the names; a search reaches an attribute through its
    entity. Walks connect the windows of one paper (equal `pmid`, or one document). An update
    encodes only new descriptions. Raises ValueError if the vectors of names come from another
    encoder.
    """

    version: ClassVar[int] = 4

    entities: str = "entities"
    names: str = "names"
    communities: str = "communities"
    tree: str = "tree"
    units: str = "units"
    encoder: Encoder = field(default_factory=Encoder)

    def write(
        self,
        inputs: Mapping[str, Sequence[Path]],
        out: Path,
        at: Place,
        former: PreviousVersion | None,
    ) -> dict[str, float | int | str]:
        """Write the arrays, and the ids in row order; only new descriptions are encoded."""
        known = former.folder / TOPICS if former else None
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
        link_names(names, out)
        write_ids(windows["unit_id"], out, "windows")
        write_codes(windows["grade"], out, "window_grades")
        members, offsets, lost = mentioned(graph / "entities.parquet", nodes.of_entity, spans)
        write_ragged(members, offsets, out, "window_nodes")
        write_ragged(*inverted(members, offsets, len(nodes.ids)), out, "node_windows")
        write_codes(nodes.types, out, "node_types")
        aliases, edges = Aliases.read(nodes.spellings(graph)), _Edges(nodes, graph)
        aliases.write(out, _incidence(members, offsets, len(nodes.ids)))
        spoken = _encoded(self.encoder, at, edges.relations)
        nodes.check(spoken)
        edge_offsets, edges_lost = edges.write(spoken, spans, out)
        links = write_links([edges.links(), (aliases.same_names(), aliases.nodes)], out)
        np.save(out / "window_studies.npy", np.load(units / "window_studies.npy").astype(np.int32))
        topics = self._write_topics(nodes, groups, tree, at, out, known)
        reached = (np.diff(offsets) > 0) | (np.diff(edge_offsets) > 0)
        return {
            "nodes": len(nodes.ids),
            "aliases": len(aliases.nodes),
            "communities": topics,
            "links": links,
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
        known: Path | None,
    ) -> int:
        """Write the communities' descriptions as vectors, and each node's community and keyword.

        Descriptions whose vectors are `known` are not encoded.
        """
        table = read_topics(tree, ["ref_id", "name", "text"])
        told = pc.binary_join_element_wise(table["name"], table["text"], ". ")
        named = pa.table({"id": table["ref_id"], "name": told})
        (out / TOPICS).mkdir()
        encode_names(named, self.encoder, out / TOPICS, at, known)
        of_node = nodes.communities(groups, NameVectors(out / TOPICS).ids)
        np.save(out / "node_communities.npy", of_node.astype(np.int32))
        below = read_below(tree, ["entity"], ["ref_id", "parent_id"])
        keyword = pc.utf8_slice_codeunits(below["parent_id"], 2)
        own = keyword.take(pc.index_in(nodes.ids, value_set=below["ref_id"]))
        rows = rows_or_none(pc.index_in(own, value_set=nodes.ids))
        np.save(out / "node_keywords.npy", rows.astype(np.int32))
        return len(table)


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
        """The row among `ids` of each node's community; raises ValueError if it has none."""
        members = read_communities(groups)
        own = members["community_id"].take(pc.index_in(self.ids, value_set=members["entity_id"]))
        rows = pc.index_in(own, value_set=ids.combine_chunks())
        if rows.null_count:
            raise ValueError(f"{groups}: a node's community is not in the tree; build again")
        return np.asarray(rows).astype(np.int64)

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

    def __init__(self, nodes: _Nodes, graph: Path) -> None:
        self._nodes, self._path = nodes, graph / "edges.parquet"
        table = read_rows(self._path, ["edge_id", "head_id", "relation", "tail_id"])
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

    def links(self) -> tuple[Ints, Ints]:
        """The nodes that each triple links; a node and itself where it links no two."""
        heads, tails = (ends.astype(np.int64) for ends in self._ends.values())
        inside = (heads >= 0) & (tails >= 0)
        return np.where(inside, heads, 0), np.where(inside, tails, 0)

    def write(self, spoken: np.ndarray, spans: WindowSpans, out: Path) -> tuple[Ints, int]:
        """Write ends, lengths, types and relations of all edges, and the edges of each window.

        `spoken` (relations, d) are the vectors of the relations' names. Searches of earlier
        versions read the types.
        """
        for side, found in self._found.items():
            np.save(out / f"edge_{side}s.npy", self._ends[side])
            types = self._nodes.entity_types.take(found.combine_chunks())
            write_codes(types, out, f"edge_{side}_types")
        write_codes(self._relations, out, "edge_relations")
        words = pa.array(self.relations, pa.string())
        codes = rows_or_none(pc.index_in(self._relations, value_set=words))
        np.save(out / "relation_vectors.npy", spoken.astype(np.float32))
        between = RELATION_WEIGHT * spoken, codes
        ends = self._ends["head"], self._ends["tail"]
        lengths = triple_lengths(self._nodes.take, *ends, between)
        np.save(out / "edge_lengths.npy", lengths)
        write_ids(self.ids, out, "edges")
        members, offsets, lost = mentioned(self._path, np.arange(len(self.ids)), spans)
        write_ragged(members, offsets, out, "window_edges")
        return offsets, lost


def link_names(names: Path, out: Path) -> None:
    """Link the vectors of names into an index."""
    shards = read_shards(names)
    for shard in shards:
        for name in FILES:
            link_or_copy(names / shard.file(name), out / shard.file(name))
    write_shards(shards, out)


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
