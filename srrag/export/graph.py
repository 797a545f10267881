"""The graph of a build, read in batches: ids and numbers in memory, names, mentions, texts not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.core.standing import Standings
from srrag.core.units import Units
from srrag.graph import knowledge_tree
from srrag.graph.communities import read_communities
from srrag.graph.entities import read_rows
from srrag.graph.tree_graph import NODE_SCHEMA, TOPIC_SCHEMA
from srrag.storage.manifest import read_live
from srrag.storage.mirror import pull_build

DIGITS = 6
"""Digits of an id that are shown first; a title has more only where these are another's too."""

Names: TypeAlias = pa.Array | pa.ChunkedArray


def unique_titles(names: Names, hints: Names, ids: Names) -> pa.Array:
    """Return a unique title for each row: its name, with a suffix if others share it.

    A name that occurs twice gets its hint in brackets. Titles that still collide get the first
    digits of their id, and more digits until all are unique.
    """
    titles, suffix, digits = names, hints, DIGITS
    while True:
        counts = pc.value_counts(titles)
        twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
        if not len(twice):
            return titles.combine_chunks() if isinstance(titles, pa.ChunkedArray) else titles
        longer = pc.binary_join_element_wise(titles, " (", suffix, ")", "")
        titles = pc.if_else(pc.is_in(titles, value_set=twice), longer, titles)
        suffix = pc.utf8_slice_codeunits(ids, 0, digits)
        digits *= 2


_UNIT_COLUMNS = ("unit_id", "doc_id", "text")
_DOCUMENT_COLUMNS = (
    "doc_id", "source_id", "title", "text", "grade", "year", "pmid", "condition",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Parts of the relations that hold text, in the order of the build's pointer."""

    unit_parts: Sequence[Path]
    document_parts: Sequence[Path]

    def units(self, wanted: pa.Array | None = None) -> Iterator[pa.Table]:
        """unit_id, doc_id and text; of these units alone if any are named."""
        return _rows(self.unit_parts, _UNIT_COLUMNS, wanted)

    def documents(self, wanted: pa.Array | None = None) -> Iterator[pa.Table]:
        """Documents with their text; these alone if any are named."""
        return _rows(self.document_parts, _DOCUMENT_COLUMNS, wanted)


def open_texts(parts: Mapping[str, Sequence[Path]]) -> Texts:
    """Find the texts among the parts of a build; raises ValueError that names what is missing."""
    # Builds of version 0.2 and before, and made graphs, found their facts in chunks.
    units = "extracts" if "extracts" in parts else "chunks"
    for stage in (units, "documents"):
        if stage not in parts:
            raise ValueError(f"stage {stage!r} is not in this build; its texts are needed here")
    return Texts(unit_parts=parts[units], document_parts=parts["documents"])


def _rows(
    paths: Sequence[Path], columns: Sequence[str], wanted: pa.Array | None
) -> Iterator[pa.Table]:
    for table in read_live(paths, columns):
        if wanted is None:
            yield table
        else:
            yield table.filter(pc.is_in(table[columns[0]], value_set=wanted))


@dataclass(frozen=True, kw_only=True)
class Topics:
    """Names and summaries in the order of the communities' ids, and their keywords by rank.

    Names are unique. Keywords are rows of entity_id, community_id and name. Without a tree the name
    of a community is its id, and it has no summary.
    """

    names: pa.Array
    summaries: pa.Array
    keywords: pa.Table


def read_topics(tree: Path | None, community_ids: Sequence[str]) -> Topics:
    """Read them from the folder of the tree, if there is one."""
    ids = pa.array(community_ids, pa.string())
    if tree is None:
        communities, keywords = TOPIC_SCHEMA.empty_table(), NODE_SCHEMA.empty_table()
    else:
        communities = knowledge_tree.read_topics(pull_build(tree))
        keywords = knowledge_tree.read_below(tree, ["keyword"])
    place = pc.index_in(ids, value_set=communities["ref_id"])
    names, summaries = (communities[name].combine_chunks() for name in ("name", "text"))
    return Topics(
        names=unique_titles(
            pc.coalesce(names.take(place), ids), pc.utf8_slice_codeunits(ids, 0, DIGITS), ids
        ),
        summaries=pc.fill_null(summaries.take(place), ""),
        keywords=pa.table(
            {
                "entity_id": keywords["ref_id"],
                "community_id": keywords["community_id"],
                "name": keywords["name"],
            }
        ),
    )


Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

GRADES = ("A", "B", "C", "D", "E", "none")
"""Evidence grades as columns; "none" counts the documents whose design could not be told."""

GRADE_COLUMNS = tuple(f"grade_{grade}" for grade in GRADES)
DOCUMENT_TYPE = "Document"
_BATCH_ROWS = 32_768


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Entities, edges and communities of a build, or the part of them that was selected.

    `heads` and `tails` are rows of the entities table, one an edge; `community` is the position in
    `community_ids` of every entity, -1 for none; `kept` says which entities are selected. An edge
    is selected if both its ends are. `tree` is the folder of the knowledge tree, if there is one.
    `standings` knows which papers are retracted.
    """

    entities: Path
    edges: Path
    ids: pa.Array
    heads: Ints
    tails: Ints
    community: Ints
    community_ids: Sequence[str]
    kept: Bools
    units: Units | None = None
    tree: Path | None = None
    standings: Standings = field(default_factory=lambda: Standings(None))

    @cached_property
    def topics(self) -> Topics:
        """Names, summaries and keywords of the communities: read when they are asked for."""
        return read_topics(self.tree, self.community_ids)

    @property
    def kept_edges(self) -> Bools:
        """Which edges have both ends in the selection."""
        return np.asarray(self.kept[self.heads] & self.kept[self.tails], np.bool_)

    @property
    def whole(self) -> bool:
        """Whether the selection holds every entity."""
        return bool(self.kept.all())

    def select(self, rows: Ints) -> Graph:
        """The same graph with only these entities."""
        kept = np.zeros(len(self.ids), np.bool_)
        kept[rows] = True
        return replace(self, kept=kept)

    def entity_batches(
        self, mentions: bool = False, topics: bool = False, standing: bool = False
    ) -> Iterator[tuple[Ints, pa.Table]]:
        """Rows and tables of selected entities: entity_id, name, type, community, counts.

        `name` is what people read: a document's title instead of its id. With `topics`, so is
        `community_name`. With `standing`, that of a document; "" for other entities, and where
        nobody looked.
        """
        for rows, table in _batches(self.entities, self.kept):
            counts = self._counts(table["mentions"].combine_chunks())
            columns = {
                "entity_id": table["entity_id"],
                "name": self._shown(table),
                "type": table["type"],
                "community": self.community_names(rows),
            }
            if topics:
                columns["community_name"] = self._of_community(rows, self.topics.names)
            columns |= counts
            if standing:
                columns["standing"] = self._standing(table)
            if mentions:
                columns["mention_list"] = table["mentions"]
            yield rows, pa.table(columns)

    def edge_batches(self, mentions: bool = False) -> Iterator[tuple[Ints, pa.Table]]:
        """Rows and tables of selected edges: ids, relation, confidence and number of mentions."""
        for rows, table in _batches(self.edges, self.kept_edges):
            columns = {
                name: table[name]
                for name in ("edge_id", "kind", "head_id", "relation", "tail_id", "confidence")
            }
            columns["mentions"] = pc.list_value_length(table["mentions"])
            if mentions:
                columns["mention_list"] = table["mentions"]
            yield rows, pa.table(columns)

    def community_names(self, rows: Ints) -> pa.Array:
        """Id of the community of each of these entities, "" for none."""
        return self._of_community(rows, pa.array(self.community_ids, pa.string()))

    def _of_community(self, rows: Ints, texts: pa.Array) -> pa.Array:
        found = self.community[rows]
        return pc.fill_null(texts.take(pa.array(found, mask=found < 0)), "")

    def attribute_nodes(self) -> Bools:
        """Which entities are values of attributes: the lowest level of the knowledge tree."""
        is_attribute = np.zeros(len(self.ids), np.bool_)
        kinds = read_rows(self.edges, ["kind"])["kind"]
        is_attribute[self.tails[pc.equal(kinds, "attribute").to_numpy()]] = True
        return is_attribute

    def _shown(self, table: pa.Table) -> pa.ChunkedArray:
        names = table["name"]
        if self.units is None:
            return names
        documents = self.units.documents
        found = pc.index_in(names, value_set=documents["doc_id"])
        titles = documents["title"].take(found)
        is_titled = pc.and_(
            pc.equal(table["type"], DOCUMENT_TYPE),
            pc.fill_null(pc.greater(pc.utf8_length(titles), 0), False),
        )
        return pc.if_else(is_titled, titles, names)

    def _standing(self, table: pa.Table) -> pa.Array:
        rows = np.flatnonzero(pc.equal(table["type"], DOCUMENT_TYPE).to_numpy())
        told = np.full(len(table), "", object)
        told[rows] = self.standings.find(table["name"].take(pa.array(rows)).to_pylist())[0]
        return pa.array(told, pa.string())

    def _counts(self, mentions: pa.ListArray) -> dict[str, pa.Array]:
        """Mentions and distinct documents of each entity, and those documents by grade."""
        parents = pc.list_parent_indices(mentions).to_numpy().astype(np.int64)
        doc_ids = pc.struct_field(pc.list_flatten(mentions), "doc_id")
        coded = doc_ids.dictionary_encode()
        names = coded.dictionary
        width = max(1, len(names))
        pairs = np.unique(parents * width + coded.indices.to_numpy().astype(np.int64))
        owner, document = pairs // width, pairs % width
        num_rows = len(mentions)
        counted: dict[str, pa.Array] = {
            "mentions": pc.list_value_length(mentions),
            "documents": pa.array(np.bincount(owner, minlength=num_rows), pa.int32()),
        }
        if self.units is None:
            return counted
        grade = _grade_codes(self.units, names)[document]
        size = len(GRADES)
        table = np.bincount(owner * size + grade, minlength=num_rows * size)
        table = table[: num_rows * size].reshape(num_rows, size)
        best = np.array([*GRADES[:-1], "", ""])
        first = np.where((table[:, :-1] > 0).any(1), (table > 0).argmax(1), size)
        counted["best_grade"] = pa.array(best[first], pa.string())
        for column, name in enumerate(GRADE_COLUMNS):
            counted[name] = pa.array(table[:, column], pa.int32())
        return counted


def _grade_codes(units: Units, doc_ids: pa.Array) -> Ints:
    documents = units.documents
    found = pc.index_in(doc_ids, value_set=documents["doc_id"])
    grades = documents["grade"].take(found)
    codes = pc.index_in(grades, value_set=pa.array(GRADES[:-1], pa.string()))
    return np.asarray(pc.fill_null(codes, len(GRADES) - 1)).astype(np.int64)


def _batches(path: Path, kept: Bools) -> Iterator[tuple[Ints, pa.Table]]:
    """Batches of the kept rows of a table with their row numbers; at least one, if empty."""
    start = 0
    if not kept.any():
        yield np.zeros(0, np.int64), pq.read_schema(path).empty_table()
    for batch in pq.ParquetFile(path).iter_batches(_BATCH_ROWS):
        table = pa.Table.from_batches([batch])
        inside = np.flatnonzero(kept[start : start + len(table)])
        if len(inside):
            found = table.take(pa.array(inside)) if len(inside) < len(table) else table
            yield inside.astype(np.int64) + start, found
        start += len(table)


def open_graph(artifacts: Mapping[str, Path]) -> Graph:
    """Open the graph of a build from the folders of its stages.

    Raises ValueError if the build has no graph, or if an edge names an entity that is not there.
    """
    if "entities" not in artifacts:
        raise ValueError("this build has no graph; `srrag build … plan=graph` adds it")
    folder = pull_build(Path(artifacts["entities"]))
    entities, edges = folder / "entities.parquet", folder / "edges.parquet"
    ids = _column(entities, "entity_id")
    community, community_ids = _communities(artifacts, ids)
    return Graph(
        entities=entities,
        edges=edges,
        ids=ids,
        heads=_positions(edges, "head_id", ids),
        tails=_positions(edges, "tail_id", ids),
        community=community,
        community_ids=community_ids,
        kept=np.ones(len(ids), np.bool_),
        units=Units(Path(artifacts["units"])) if "units" in artifacts else None,
        tree=Path(artifacts["tree"]) if "tree" in artifacts else None,
        standings=Standings(Path(artifacts["standing"]) if "standing" in artifacts else None),
    )


def _column(path: Path, name: str) -> pa.Array:
    return read_rows(path, [name])[name].combine_chunks()


def _positions(edges: Path, column: str, ids: pa.Array) -> Ints:
    ends = _column(edges, column)
    found = pc.index_in(ends, value_set=ids)
    if found.null_count:
        absent = ends[pc.index(found.is_null(), True).as_py()]
        raise ValueError(f"{edges}: {column} {absent} is not an entity; run the build again")
    return np.asarray(found.to_numpy().astype(np.int64))


def _communities(artifacts: Mapping[str, Path], ids: pa.Array) -> tuple[Ints, list[str]]:
    """The community of every entity as a position in the sorted list of community ids."""
    if "communities" not in artifacts:
        return np.full(len(ids), -1, np.int64), []
    table = read_communities(pull_build(Path(artifacts["communities"])))
    names = sorted(pc.unique(table["community_id"]).to_pylist())
    codes = pc.index_in(table["community_id"], value_set=pa.array(names, pa.string()))
    mine = codes.take(pc.index_in(ids, value_set=table["entity_id"]))
    return np.asarray(pc.fill_null(mine, -1).to_numpy(zero_copy_only=False)).astype(np.int64), names


def node_types(graph: Graph) -> dict[str, Any]:
    """Nodes by type as in §2.1 of sr-rag: medical entities apart from documents and attributes."""
    types = read_rows(graph.entities, ["type"])["type"]
    is_value = pa.array(graph.attribute_nodes())
    is_core = pc.and_not(pc.not_equal(types, DOCUMENT_TYPE), is_value)
    return {
        "nodes": len(types),
        "core_entities": pc.sum(is_core).as_py() or 0,
        "entity_types": value_counts(types.filter(is_core)),
        "attribute_types": value_counts(types.filter(is_value)),
    }


def value_counts(column: pa.ChunkedArray) -> dict[str, int]:
    """Count the values of a column, the most frequent first."""
    counts = {item["values"]: item["counts"] for item in pc.value_counts(column).to_pylist()}
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
