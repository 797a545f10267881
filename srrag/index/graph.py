"""Graph index: entities, triples and communities with the windows that mention them.

Every file is a memory-mapped array; vectors are int8 with one scale a row. This build encodes
nothing. Names have their vectors from the communities. A Document's vector is the mean of its
windows', a community's the mean of its members', a triple's the sum of its two ends'.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy import sparse

from srrag.algo.graph_scores import segments, triple_lengths
from srrag.index.mentions import WindowSpans, mentioned
from srrag.index.parts import unpack_vectors
from srrag.index.sparse import analyzer
from srrag.model.embed import quantise_rows
from srrag.step import Build, Place
from srrag.storage.lookup import Lookup
from srrag.storage.read_live import read_live

Ints = npt.NDArray[np.int64]

DOCUMENT = "Document"
"""Type of the node of a study or guideline itself; its name is a doc_id."""
CODED = ("node_types", "edge_head_types", "edge_tail_types", "edge_relations", "window_grades")
"""Columns of few distinct words, each stored as an array of codes and a list of words."""
MAX_NAME_TERMS = 8
_BLOCK_ROWS = 8192


@dataclass(frozen=True, kw_only=True)
class BuildGraphIndex(Build):
    """ENTITIES, EDGES, COMMUNITIES, windows and their vectors → the graph channel's index.

    Nodes are the entities with a vector; a search reaches an attribute through its entity. Raises
    ValueError if the vectors of names and windows differ in dimension.
    """

    entities: str = "entities"
    communities: str = "communities"
    units: str = "units"
    vectors: str = "vectors"

    def build(
        self, inputs: Mapping[str, Sequence[Path]], out: Path, at: Place
    ) -> dict[str, float | int | str]:
        """Write the arrays, and the ids in row order."""
        (graph,), (groups,), (units,) = (
            inputs[name] for name in (self.entities, self.communities, self.units)
        )
        nodes = _Nodes(graph, groups)
        windows = pa.ipc.open_file(pa.memory_map(str(units / "units.arrow"))).read_all()
        spans = WindowSpans(
            windows["doc_id"].combine_chunks(),
            *(np.asarray(windows[name]).astype(np.int64) for name in ("char_start", "char_end")),
        )
        write_ids(windows["unit_id"], out, "windows")
        write_codes(windows["grade"], out, "window_grades")
        _write_vectors(nodes, groups, units, inputs[self.vectors], windows["doc_id"], out)
        members, offsets, lost = mentioned(graph / "entities.parquet", nodes.of_entity, spans)
        np.save(out / "window_nodes.npy", members)
        np.save(out / "window_nodes.offsets.npy", offsets)
        write_ids(nodes.ids, out, "nodes")
        write_codes(nodes.types, out, "node_types")
        shown_in = np.bincount(members, minlength=len(nodes.ids))
        _write_names(nodes, shown_in, len(windows), out)
        edge_offsets, edges_lost = _write_edges(nodes, graph / "edges.parquet", spans, out)
        _write_communities(nodes, members, offsets, out)
        reached = (np.diff(offsets) > 0) | (np.diff(edge_offsets) > 0)
        return {
            "nodes": len(nodes.ids),
            "communities": len(nodes.communities),
            "windows": len(windows),
            "windows_reached": int(reached.sum()),
            "mentions_outside_windows": lost + edges_lost,
        }


class _Nodes:
    """The entities with a vector, in that order, and their rows among all entities."""

    def __init__(self, graph: Path, groups: Path) -> None:
        self.ids = _column(groups / "entity_vectors.parquet", "entity_id")
        table = pq.read_table(graph / "entities.parquet", columns=["entity_id", "name", "type"])
        self.entity_ids = table["entity_id"].combine_chunks()
        self.entity_types = table["type"].combine_chunks()
        found = pc.index_in(self.entity_ids, value_set=self.ids)
        self.of_entity: Ints = _filled(found)
        place = pc.index_in(self.ids, value_set=self.entity_ids)
        if place.null_count:
            raise ValueError(f"{groups} names entities that {graph} lacks; run the build again")
        self.names = table["name"].combine_chunks().take(place)
        self.types = self.entity_types.take(place)
        members = pq.read_table(groups / "communities.parquet")
        labels = members["community_id"].take(
            pc.index_in(self.ids, value_set=members["entity_id"].combine_chunks())
        )
        self.communities = pc.unique(labels)
        self.community: Ints = _filled(pc.index_in(labels, value_set=self.communities))


def _write_vectors(
    nodes: _Nodes, groups: Path, units: Path, paths: Sequence[Path], doc_ids: Any, out: Path
) -> None:
    """Write the vectors of windows, nodes (a Document's is its windows' mean) and communities."""
    names = np.load(groups / "entity_vectors.npy", mmap_mode="r")
    node_vectors = _Vectors(out / "nodes", *names.shape)
    for start in range(0, len(names), _BLOCK_ROWS):
        rows = np.arange(start, min(start + _BLOCK_ROWS, len(names)))
        node_vectors.put(rows, names[rows].astype(np.float32))
    lookup = Lookup(units, "units")
    window_vectors = _Vectors(out / "windows", len(doc_ids), names.shape[1])
    documents = pc.equal(nodes.types, DOCUMENT)
    at_document = np.flatnonzero(np.asarray(documents))
    document_ids = nodes.names.filter(documents)
    node_vectors.put(at_document, np.zeros((len(at_document), names.shape[1]), np.float32))
    for table in read_live(paths, ("unit_id", "vector")):
        if not table.num_rows:
            continue
        rows = lookup.find(table["unit_id"].to_pylist())
        vectors = unpack_vectors(table["vector"])
        window_vectors.put(rows, vectors)
        # Each part holds whole documents.
        owner = _filled(pc.index_in(doc_ids.take(pa.array(rows)), value_set=document_ids))
        here, position = np.unique(owner[owner >= 0], return_inverse=True)
        node_vectors.put(at_document[here], _means(vectors[owner >= 0], position, len(here)))
    total = np.zeros((len(nodes.communities), names.shape[1]), np.float32)
    for start in range(0, len(names), _BLOCK_ROWS):
        rows = np.arange(start, min(start + _BLOCK_ROWS, len(names)))
        total += _sums(node_vectors.take(rows), nodes.community[rows], len(total))
    _Vectors(out / "communities", *total.shape).put(np.arange(len(total)), _unit(total))


class _Vectors:
    """A file of int8 vectors with one scale a row; rows may be written in any order."""

    def __init__(self, path: Path, rows: int, dimension: int) -> None:
        self._path, self._dimension = path, dimension
        self.values = _new_array(f"{path}.vectors.npy", np.int8, (rows, dimension))
        self.scales = _new_array(f"{path}.scales.npy", np.float16, (rows,))

    def put(self, rows: Ints, vectors: np.ndarray) -> None:
        if vectors.shape[1] != self._dimension:
            raise ValueError(
                f"{self._path.name}: vectors of {vectors.shape[1]} numbers beside names of "
                f"{self._dimension}: both need one encoder"
            )
        self.values[rows], self.scales[rows] = quantise_rows(vectors)

    def take(self, rows: Ints) -> np.ndarray:
        found: np.ndarray = self.values[rows] * self.scales[rows].astype(np.float32)[:, None]
        return found


def _new_array(path: str, kind: Any, shape: tuple[int, ...]) -> np.ndarray:
    opened: np.ndarray = np.lib.format.open_memmap(path, "w+", kind, shape)  # type: ignore[no-untyped-call]
    return opened


def _sums(vectors: np.ndarray, owner: Ints, owners: int) -> np.ndarray:
    ones = np.ones(len(owner), np.float32)
    shape = (owners, len(owner))
    found: np.ndarray = sparse.csr_array((ones, (owner, np.arange(len(owner)))), shape) @ vectors
    return found


def _means(vectors: np.ndarray, owner: Ints, owners: int) -> np.ndarray:
    return _unit(_sums(vectors, owner, owners))


def _unit(vectors: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: np.ndarray = vectors / np.where(length > 0, length, 1)
    return found


def _write_names(nodes: _Nodes, shown_in: Ints, num_windows: int, out: Path) -> None:
    """Write the names, tokenised like the sparse index, to find them in questions.

    Rarity is the inverse window frequency scaled to 0…1: log(1 + W / w) / log(1 + W).
    """
    read = analyzer()
    is_document = np.asarray(pc.equal(nodes.types, DOCUMENT))
    keys, rows = [], []
    for row, name in enumerate(nodes.names.to_pylist()):
        terms = () if is_document[row] else read.analyze(name)
        if 0 < len(terms) <= MAX_NAME_TERMS:
            keys.append(name_key(terms))
            rows.append(row)
    order = np.argsort(np.array(keys, np.uint64), kind="stable")
    np.save(out / "names.keys.npy", np.array(keys, np.uint64)[order])
    np.save(out / "names.rows.npy", np.array(rows, np.int32)[order])
    rarity = np.log1p(num_windows / np.maximum(shown_in, 1)) / np.log1p(max(1, num_windows))
    np.save(out / "rarity.npy", rarity.astype(np.float16))


def name_key(terms: Sequence[str]) -> int:
    """Hash a name's terms to 64 bits."""
    digest = hashlib.blake2b(" ".join(terms).encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def _write_edges(nodes: _Nodes, path: Path, spans: WindowSpans, out: Path) -> tuple[Ints, int]:
    """Write ends, lengths, types and relations of all edges, and the edges of each window."""
    edges = pq.read_table(path, columns=["edge_id", "head_id", "relation", "tail_id"])
    # An attribute has no vector: its row is the one past the last.
    row_of = np.where(nodes.of_entity >= 0, nodes.of_entity, len(nodes.ids)).astype(np.int32)
    values = np.load(out / "nodes.vectors.npy", mmap_mode="r")
    scales = np.load(out / "nodes.scales.npy", mmap_mode="r")
    ends = {}
    for side in ("head", "tail"):
        found = pc.index_in(edges[f"{side}_id"], value_set=nodes.entity_ids)
        if found.null_count:
            raise ValueError(f"{path}: an edge has no {side}; run the build again")
        ends[side] = row_of[_filled(found)]
        np.save(out / f"edge_{side}s.npy", ends[side])
        write_codes(nodes.entity_types.take(found.combine_chunks()), out, f"edge_{side}_types")
    np.save(out / "edge_lengths.npy", triple_lengths(values, scales, ends["head"], ends["tail"]))
    write_codes(edges["relation"], out, "edge_relations")
    write_ids(edges["edge_id"], out, "edges")
    members, offsets, lost = mentioned(path, np.arange(len(edges)), spans)
    np.save(out / "window_edges.npy", members)
    np.save(out / "window_edges.offsets.npy", offsets)
    return offsets, lost


def _write_communities(nodes: _Nodes, members: np.ndarray, offsets: Ints, out: Path) -> None:
    """Write the communities of each window: those of the nodes that it mentions."""
    windows = len(offsets) - 1
    owner = np.repeat(np.arange(windows), np.diff(offsets))
    found, found_offsets = segments(owner, nodes.community[members], windows)
    np.save(out / "window_communities.npy", found)
    np.save(out / "window_communities.offsets.npy", found_offsets)
    write_ids(nodes.communities, out, "communities")


def write_ids(ids: Any, out: Path, name: str) -> None:
    """Write ids in row order as an Arrow file for memory-mapping."""
    table = pa.table({"id": ids})
    with pa.ipc.new_file(str(out / f"{name}.arrow"), table.schema) as writer:
        writer.write_table(table)


def write_codes(column: Any, out: Path, name: str) -> None:
    """Write a column of few distinct words as `<name>.npy` of codes and `<name>.json` of words."""
    words = sorted(pc.unique(column).to_pylist())
    codes = _filled(pc.index_in(column, value_set=pa.array(words, pa.string())))
    np.save(out / f"{name}.npy", codes.astype(np.int16))
    (out / f"{name}.json").write_text(json.dumps(words), "utf-8")


def _filled(found: Any) -> Ints:
    """Convert positions to int64, with -1 for null."""
    return np.asarray(pc.fill_null(found, -1)).astype(np.int64)


def _column(path: Path, name: str) -> pa.Array:
    return pq.read_table(path, columns=[name])[name].combine_chunks()
