"""The graph for the knowledge tree: entities by id, owners, communities, facts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srrag.graph.communities import read_communities
from srrag.graph.layers import read_rows
from srrag.graph.nodes import in_order, numbered, rows_of_ends
from srrag.graph.tables import narrow
from srrag.units import map_tables

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_DOCUMENT = "Document"
_UNTITLED = "untitled document"
A_STUDY = "A study"
"""The word for a document in the facts and keywords of a description."""
_MAX_NAME_CHARS = 200


@dataclass(frozen=True)
class TreeGraph:
    """Entities in the order of their ids; edges as pairs of rows; communities by number.

    `core` marks entities other than attributes. `owner` is the row of an attribute's entity, and a
    core entity's own row. `of_attribute` marks the edges to attributes. Documents have their titles
    as names, but descriptions call each A_STUDY: no title leads to a community's windows.
    """

    ids: pa.Array
    names: pa.Array
    types: pa.Array
    mentions: Ints
    is_document: Bools
    core: Bools
    owner: Ints
    label: Ints
    community_ids: pa.Array
    edge_ids: pa.Array
    heads: Ints
    tails: Ints
    relations: pa.Array
    edge_mentions: Ints
    of_attribute: Bools

    @classmethod
    def read(cls, folder: Path, groups: Path, units: Path) -> TreeGraph:
        """Read the tables; raises ValueError for an entity without a community."""
        columns = ["entity_id", "name", "type"]
        nodes = in_order(_counted(folder / "entities.parquet", columns), "entity_id")
        columns = ["edge_id", "kind", "head_id", "relation", "tail_id"]
        edges = in_order(_counted(folder / "edges.parquet", columns), "edge_id")
        nodes, edges = nodes.combine_chunks(), edges.combine_chunks()
        ids = nodes["entity_id"].combine_chunks()
        members = read_communities(groups)
        mine = members["community_id"]
        if not members["entity_id"].equals(pa.chunked_array([ids])):
            mine = mine.take(pc.index_in(ids, value_set=members["entity_id"]))
        if mine.null_count:
            raise ValueError(f"{groups}: an entity is in no community; run the build again")
        label, communities = numbered(mine)
        heads, tails = rows_of_ends(edges, ids)
        of_attribute = np.asarray(pc.equal(edges["kind"], "attribute"))
        owner = _owners(heads[of_attribute], tails[of_attribute], len(ids))
        return cls(
            ids=ids,
            names=_shown_names(nodes, units),
            types=nodes["type"].combine_chunks(),
            mentions=_numbers(nodes["count"]),
            is_document=np.asarray(pc.equal(nodes["type"], _DOCUMENT)),
            core=owner == np.arange(len(ids)),
            owner=owner,
            label=label[owner],
            community_ids=pa.array(communities, pa.string()),
            edge_ids=edges["edge_id"].combine_chunks(),
            heads=heads,
            tails=tails,
            relations=edges["relation"].combine_chunks(),
            edge_mentions=_numbers(edges["count"]),
            of_attribute=of_attribute,
        )

    def facts(self, community: int) -> list[str]:
        """The facts of a community's entities, each once: relations first, most mentioned first."""
        _, first = self._by_community
        begin, end = first[community : community + 2].tolist()
        told: list[str] = self._facts.slice(begin, end - begin).to_pylist()
        return list(dict.fromkeys(told))

    @cached_property
    def told(self) -> pa.Array:
        """The names as descriptions show them."""
        return pc.if_else(pa.array(self.is_document), A_STUDY, self.names)

    def facts_hash(self, community: int) -> str:
        """Return a hash of a community's facts, in order."""
        _, first = self._by_community
        begin, end = first[community : community + 2].tolist()
        digest = hashlib.blake2b(self._lengths[begin:end], digest_size=16)
        digest.update(self._bytes[self._bounds[begin] : self._bounds[end]])
        return digest.hexdigest()

    def between(self, edges: pa.Array) -> pa.Array:
        """Return the text between the two names of each edge's fact, with its blanks."""
        texts, chosen = self._between
        return texts.take(chosen.take(edges))

    @cached_property
    def _between(self) -> tuple[pa.Array, pa.Array]:
        """The distinct texts between two names, and the number of each edge's text."""
        relations, kinds = map(pc.dictionary_encode, (self.relations, self.types))
        texts = [f" {text} " for text in relations.dictionary.to_pylist()]
        numbers = _numbers(kinds.indices)[self.tails] + len(texts)
        texts += [f": {text} " for text in kinds.dictionary.to_pylist()]
        chosen = np.where(self.of_attribute, numbers, _numbers(relations.indices))
        return pa.array([text.replace("_", " ") for text in texts], pa.string()), pa.array(chosen)

    @cached_property
    def _facts(self) -> pa.Array:
        """The facts of all communities as texts, by community."""
        order, _ = self._by_community
        shown = pc.utf8_slice_codeunits(self.told, 0, _MAX_NAME_CHARS).cast(pa.large_string())
        heads, tails = (shown.take(pa.array(rows[order])) for rows in (self.heads, self.tails))
        between = self.between(pa.array(order)).cast(pa.large_string())
        return pc.binary_join_element_wise(heads, between, tails, pa.scalar("", between.type))

    @cached_property
    def _bounds(self) -> Ints:
        """The offset of each fact in `_bytes`, and the end of the last one."""
        if not len(self._facts):
            return np.zeros(1, np.int64)
        return np.frombuffer(self._facts.buffers()[1], np.int64)[: len(self._facts) + 1]

    @cached_property
    def _lengths(self) -> memoryview:
        return np.diff(self._bounds).data

    @cached_property
    def _bytes(self) -> memoryview:
        return memoryview(self._facts.buffers()[2] or b"")

    @cached_property
    def _by_community(self) -> tuple[Ints, Ints]:
        """The edges, sorted by their head's community, and where each community begins."""
        label = self.label[self.heads]
        order = np.lexsort((narrow(-self.edge_mentions), self.of_attribute, narrow(label)))
        first = np.searchsorted(label[order], np.arange(len(self.community_ids) + 1))
        return order, first.astype(np.int64)


def _counted(path: Path, columns: list[str]) -> pa.Table:
    """Read these columns and count the mentions; of these it reads one short field only."""
    table = read_rows(path, [*columns, "mentions.list.element.char_start"])
    counts = pc.list_value_length(table["mentions"])
    return table.select(columns).append_column("count", counts)


def _owners(heads: Ints, tails: Ints, num_nodes: int) -> Ints:
    """Return the entity of each attribute (the first of several); other nodes own themselves.

    A node with attributes is an entity, even if it is also an attribute of another.
    """
    owner = np.full(num_nodes, num_nodes, np.int64)
    np.minimum.at(owner, tails, heads)
    alone = owner == num_nodes
    alone[heads] = True
    owner[alone] = np.flatnonzero(alone)
    return owner


def _shown_names(nodes: pa.Table, units: Path) -> pa.Array:
    """Return the names; a document's name is its title."""
    documents = map_tables(units)[1]
    names, types = (nodes[name].combine_chunks() for name in ("name", "type"))
    is_document = pc.equal(types, _DOCUMENT)
    known = documents["doc_id"].combine_chunks()
    found = pc.index_in(names.filter(is_document), value_set=known)
    titles = pc.fill_null(documents["title"].combine_chunks().take(found), "")
    titles = pc.if_else(pc.equal(titles, ""), _UNTITLED, titles)
    return pc.replace_with_mask(names, is_document, titles)


def _numbers(column: Any) -> Ints:
    return np.asarray(column).astype(np.int64)
