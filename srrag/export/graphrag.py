"""The Parquet tables of GraphRAG's data model, which the tools around it read.

Columns and order are those that GraphRAG 3.3 writes (`graphrag.data_model.schemas`). It joins
relationships to entities by title, and rolls communities up by theirs, so titles are unique: the
name, then with its type, then with the first digits of its id. Tokens of a text unit are counted
as the packaged encoder counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.core.schema import columns, rows_of
from srrag.export.graph import GRADES, Graph, Ints, Texts, unique_titles
from srrag.graph.entities import read_rows
from srrag.model.encoder import Encoder, load_tokenizer


@dataclass(frozen=True)
class GroupedPairs:
    """Distinct pairs (group, item), sorted."""

    groups: Ints
    items: Ints

    def lists(self, start: int, stop: int, names: pa.Array) -> pa.ListArray:
        """For each group from `start` to `stop`, the names of its items."""
        groups = np.arange(start, stop + 1)
        offsets = np.searchsorted(self.groups, groups)
        taken = names.take(pa.array(self.items[offsets[0] : offsets[-1]]))
        return pa.ListArray.from_arrays(pa.array((offsets - offsets[0]).astype(np.int32)), taken)

    def swapped(self) -> GroupedPairs:
        """Each item with its groups."""
        return distinct(self.items, self.groups)

    def grouped_by(self, group_of: Ints) -> GroupedPairs:
        """The same items under the groups of their groups; a group of -1 is left out."""
        groups = group_of[self.groups]
        return distinct(groups[groups >= 0], self.items[groups >= 0])


def distinct(groups: Ints, items: Ints) -> GroupedPairs:
    """Sort pairs and drop duplicates; both arrays have shape (pairs,)."""
    width = int(items.max(initial=0)) + 1
    keys = np.unique(groups.astype(np.int64) * width + items)
    return GroupedPairs(keys // width, keys % width)


def mentioned(rows: Ints, mentions: pa.ChunkedArray, unit_ids: pa.Array) -> tuple[Ints, Ints]:
    """Row and unit of every mention; raises ValueError for a unit that is not there."""
    lists = mentions.combine_chunks()
    parents = pc.list_parent_indices(lists).to_numpy()
    named = pc.struct_field(pc.list_flatten(lists), "unit_id")
    found = pc.index_in(named, value_set=unit_ids)
    if found.null_count:
        absent = named[pc.index(found.is_null(), True).as_py()]
        raise ValueError(f"a mention names unit {absent}, whose text is not in this build")
    return rows[parents], found.to_numpy().astype(np.int64)


def joined(pieces: Sequence[tuple[Ints, Ints]]) -> GroupedPairs:
    """The pairs of all pieces."""
    groups, items = zip(*pieces, strict=True)
    return distinct(np.concatenate(groups), np.concatenate(items))


_HEAD = "id human_readable_id:long"
ENTITIES = pa.schema(
    columns(_HEAD, "title type description text_unit_ids:strings frequency:long degree:long")
)
_LINK = "source target description weight:double combined_degree:long text_unit_ids:strings"
RELATIONSHIPS = pa.schema(columns(_HEAD, _LINK))
_CHILDREN = ("children", pa.list_(pa.int64()))
_PLACE = columns(_HEAD, "community:long level:long parent:long", _CHILDREN, "title")
_EXTENT = "period size:long"
_MEMBERS = "entity_ids:strings relationship_ids:strings"
COMMUNITIES = pa.schema(columns(*_PLACE, _MEMBERS, "text_unit_ids:strings", _EXTENT))
_FINDINGS = ("findings", rows_of("summary explanation"))
_RATING = "summary full_content rank:double rating_explanation"
REPORTS = pa.schema(columns(*_PLACE, _RATING, _FINDINGS, "full_content_json", _EXTENT))
TEXT_UNITS = pa.schema(
    columns(_HEAD, "text n_tokens:long document_id", _MEMBERS, "covariate_ids:strings")
)
DOCUMENTS = pa.schema(columns(_HEAD, "title text text_unit_ids:strings creation_date raw_data"))

_RATED = "From 0 to 10: its entities against those of the largest community; nobody judged it."


@dataclass(frozen=True, kw_only=True)
class _Links:
    """The links between the tables: numbers of entities, edges and units, and their ids."""

    titles: pa.Array
    degrees: Ints
    edge_ids: pa.Array
    unit_ids: pa.Array
    unit_docs: pa.Array
    entity_units: GroupedPairs
    edge_units: GroupedPairs


def write_graphrag(graph: Graph, texts: Texts, folder: Path) -> dict[str, int]:
    """Write entities, relationships, communities, their reports, text_units and documents."""
    links = _links(graph, texts)
    communities = _communities(graph, links)
    reports = _reports(graph, communities)
    return {
        "entities": _write(folder / "entities.parquet", ENTITIES, _entities(graph, links)),
        "edges": _write(folder / "relationships.parquet", RELATIONSHIPS, _edges(graph, links)),
        "communities": _write(folder / "communities.parquet", COMMUNITIES, [communities]),
        "reports": _write(folder / "community_reports.parquet", REPORTS, [reports]),
        "text_units": _write(
            folder / "text_units.parquet", TEXT_UNITS, _text_units(graph, links, texts)
        ),
        "documents": _write(
            folder / "documents.parquet", DOCUMENTS, _documents(graph, links, texts)
        ),
    }


def _links(graph: Graph, texts: Texts) -> _Links:
    shown = pa.concat_tables([table for _, table in graph.entity_batches()])
    some = unique_titles(shown["name"], shown["type"], shown["entity_id"])
    place = np.cumsum(graph.kept) - 1
    units = pa.concat_tables(
        [table.select(["unit_id", "doc_id"]) for table in texts.units(_selected_units(graph))]
    ).combine_chunks()
    unit_ids = units["unit_id"].combine_chunks()
    edges = graph.kept_edges
    ends = np.concatenate([graph.heads[edges], graph.tails[edges]])
    return _Links(
        titles=some.take(pa.array(place, mask=~graph.kept)),
        degrees=np.bincount(ends, minlength=len(graph.ids)).astype(np.int64),
        edge_ids=read_rows(graph.edges, ["edge_id"])["edge_id"].combine_chunks(),
        unit_ids=unit_ids,
        unit_docs=units["doc_id"].combine_chunks(),
        entity_units=joined(
            [mentioned(r, t["mention_list"], unit_ids) for r, t in graph.entity_batches(True)]
        ),
        edge_units=joined(
            [mentioned(r, t["mention_list"], unit_ids) for r, t in graph.edge_batches(True)]
        ),
    )


def _selected_units(graph: Graph) -> pa.Array | None:
    """The units that the selection mentions; None for the whole graph, which has them all."""
    if graph.whole:
        return None
    lists = [t["mention_list"] for _, t in graph.entity_batches(mentions=True)]
    return pc.unique(
        pc.struct_field(
            pc.list_flatten(pa.chunked_array([chunk for item in lists for chunk in item.chunks])),
            "unit_id",
        )
    )


def _entities(graph: Graph, links: _Links) -> Iterator[dict[str, Any]]:
    for rows, table in graph.entity_batches():
        units = _lists_at(links.entity_units, rows, links.unit_ids)
        yield {
            "id": table["entity_id"],
            "title": links.titles.take(pa.array(rows)),
            "type": table["type"],
            "description": _described(table),
            "text_unit_ids": units,
            "frequency": pc.list_value_length(units),
            "degree": pa.array(links.degrees[rows]),
        }


def _described(table: pa.Table) -> pa.ChunkedArray:
    """In words: "Outcome; mentions: 5; documents: 3 (grade A: 1) (grade C: 2)"."""
    counts = [_text(table[name]) for name in ("mentions", "documents")]
    parts = [table["type"], "; mentions: ", counts[0], "; documents: ", counts[1]]
    for grade in GRADES:
        if f"grade_{grade}" in table.column_names:
            count = table[f"grade_{grade}"]
            said = pc.binary_join_element_wise(f" (grade {grade}: ", _text(count), ")", "")
            parts.append(pc.if_else(pc.greater(count, 0), said, ""))
    return pc.binary_join_element_wise(*parts, "")


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(column, pa.string())


def _edges(graph: Graph, links: _Links) -> Iterator[dict[str, Any]]:
    for rows, table in graph.edge_batches():
        heads, tails = graph.heads[rows], graph.tails[rows]
        source, target = (links.titles.take(pa.array(end)) for end in (heads, tails))
        relation = pc.replace_substring(table["relation"], "_", " ")
        yield {
            "id": table["edge_id"],
            "source": source,
            "target": target,
            "description": pc.binary_join_element_wise(source, relation, target, " "),
            "weight": table["mentions"],
            "combined_degree": pa.array(links.degrees[heads] + links.degrees[tails]),
            "text_unit_ids": _lists_at(links.edge_units, rows, links.unit_ids),
        }


def _lists_at(pairs: GroupedPairs, rows: Ints, names: pa.Array) -> pa.Array:
    """The lists of these rows, which are in rising order."""
    if not len(rows):
        return pa.array([], pa.list_(pa.string()))
    first = int(rows[0])
    lists = pairs.lists(first, int(rows[-1]) + 1, names)
    return lists.take(pa.array(rows - first))


def _communities(graph: Graph, links: _Links) -> dict[str, Any]:
    rows = np.flatnonzero(graph.kept & (graph.community >= 0))
    members = distinct(graph.community[rows], rows)
    edges = np.flatnonzero(graph.kept_edges)
    heads = graph.community[graph.heads[edges]]
    inside = (heads == graph.community[graph.tails[edges]]) & (heads >= 0)
    units = links.entity_units.grouped_by(np.where(graph.kept, graph.community, -1))
    numbers = np.unique(members.groups)
    links_of = [
        (members, graph.ids),
        (distinct(heads[inside], edges[inside]), links.edge_ids),
        (units, links.unit_ids),
    ]
    entity_ids, edge_ids, unit_ids = (_lists_at(pairs, numbers, ids) for pairs, ids in links_of)
    size = len(numbers)
    return {
        "id": pa.array(graph.community_ids, pa.string()).take(pa.array(numbers)),
        "human_readable_id": pa.array(numbers),
        "community": pa.array(numbers),
        "level": pa.array(np.zeros(size, np.int64)),
        "parent": pa.array(np.full(size, -1)),
        "children": pa.array([[]] * size, REPORTS.field("children").type),
        "title": graph.topics.names.take(pa.array(numbers)),
        "entity_ids": entity_ids,
        "relationship_ids": edge_ids,
        "text_unit_ids": unit_ids,
        "period": pa.nulls(size, pa.string()),
        "size": pc.list_value_length(entity_ids),
    }


def _reports(graph: Graph, communities: dict[str, Any]) -> dict[str, Any]:
    """Make a report of each community that the knowledge tree describes."""
    numbers, summaries = communities["community"], graph.topics.summaries
    told = pc.not_equal(summaries.take(numbers), "")
    columns = {name: column.filter(told) for name, column in communities.items()}
    titles, summary = columns["title"], summaries.take(columns["community"])
    # GraphRAG's rank is a model's opinion from 0 to 10, by which its searches sort.
    largest = pc.max(communities["size"]).as_py() or 1
    rank = pc.divide(pc.multiply(pc.cast(columns["size"], pa.float64()), 10.0), float(largest))
    rows = zip(titles.to_pylist(), summary.to_pylist(), rank.to_pylist(), strict=True)
    stated = [
        {"title": title, "summary": text, "rating": rating, "rating_explanation": _RATED,
         "findings": []}
        for title, text, rating in rows
    ]  # fmt: skip
    return columns | {
        "summary": summary,
        "full_content": pc.binary_join_element_wise("# ", titles, "\n\n", summary, ""),
        "rank": rank,
        "rating_explanation": pa.array([_RATED] * len(stated), pa.string()),
        "findings": pa.array([[]] * len(stated), REPORTS.field("findings").type),
        "full_content_json": pa.array(
            [json.dumps(each, ensure_ascii=False) for each in stated], pa.string()
        ),
    }


def _text_units(graph: Graph, links: _Links, texts: Texts) -> Iterator[dict[str, Any]]:
    entities, edges = links.entity_units.swapped(), links.edge_units.swapped()
    tokenizer = load_tokenizer(Encoder())
    start = 0
    for table in texts.units(_selected_units(graph)):
        stop = start + table.num_rows
        yield {
            "id": table["unit_id"],
            "text": table["text"],
            "n_tokens": pa.array(tokenizer.count(table["text"].to_pylist())),
            "document_id": table["doc_id"],
            "entity_ids": entities.lists(start, stop, graph.ids),
            "relationship_ids": edges.lists(start, stop, links.edge_ids),
            "covariate_ids": pa.array([[]] * table.num_rows, pa.list_(pa.string())),
        }
        start = stop


def _documents(graph: Graph, links: _Links, texts: Texts) -> Iterator[dict[str, Any]]:
    coded = links.unit_docs.dictionary_encode()
    codes = coded.indices.to_numpy().astype(np.int64)
    units = distinct(codes, np.arange(len(codes)))
    wanted = coded.dictionary
    for table in texts.documents(wanted):
        place = pc.index_in(table["doc_id"], value_set=wanted).combine_chunks().to_numpy()
        lists = units.lists(0, len(wanted), links.unit_ids)
        facts = table.select(["source_id", "grade", "year", "pmid", "condition"]).to_pylist()
        for row, standing in zip(
            facts, graph.standings.find(table["doc_id"].to_pylist())[0], strict=True
        ):
            row["standing"] = standing
        yield {
            "id": table["doc_id"],
            "title": table["title"],
            "text": table["text"],
            "text_unit_ids": lists.take(pa.array(place)),
            "creation_date": pa.nulls(table.num_rows, pa.string()),
            "raw_data": pa.array(
                [json.dumps(row, ensure_ascii=False) for row in facts], pa.string()
            ),
        }


def _write(path: Path, schema: pa.Schema, batches: Iterable[dict[str, Any]]) -> int:
    """Write the batches as one file, numbering the rows; return how many there are."""
    num_rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for columns in batches:
            size = len(columns["id"])
            numbers = pa.array(np.arange(num_rows, num_rows + size))
            numbered = {"human_readable_id": numbers, **columns}
            arrays = [numbered[field.name].cast(field.type) for field in schema]
            writer.write_table(pa.table(arrays, schema=schema))
            num_rows += size
    return num_rows
