"""The JSON in which Youtu-GraphRAG saves a graph, and the one of nodes, edges and chunks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srrag.core.standing import marked
from srrag.export.graph import Graph, Ints, Texts

Node = dict[str, Any]


def write_triples(graph: Graph, path: Path) -> dict[str, int]:
    """Write Youtu-GraphRAG's list of {start_node, relation, end_node}: all four levels of it.

    An edge is a triple; so is the membership of an entity in its community, which keeps entities
    without edges. A keyword stands for an entity (`represented_by`) in its community
    (`keyword_of`). An attribute is named "key: value". A paper that is not in order, as a retracted
    one, has a `standing`. Youtu-GraphRAG tells nodes apart by label
    and name alone; `id` says which of several equal names is meant.
    """
    nodes = _SelectedNodes(graph)
    with path.open("w", encoding="utf-8") as file:
        num_triples = _write_list(file, _triples(graph, nodes))
        file.write("\n")
    return {"entities": len(nodes), "edges": int(graph.kept_edges.sum()), "triples": num_triples}


def write_nodes_and_edges(graph: Graph, texts: Texts, path: Path) -> dict[str, int]:
    """Write {nodes, edges, chunks}: the shape that `srrag organize graph.path=` reads.

    Nodes have id, name, label (entity, level 2, or attribute, level 1), schema_type and the chunk
    that mentions them first, a paper that is not in order its `standing` too; an edge is
    [id, relation, id].
    """
    nodes = _SelectedNodes(graph)
    with path.open("w", encoding="utf-8") as file:
        file.write('{"nodes": ')
        _write_list(file, nodes)
        file.write(',\n"edges": ')
        num_edges = _write_list(file, _pairs(graph))
        file.write(',\n"chunks": {')
        wanted = pc.unique(nodes.table["chunk"])
        before = ""
        for table in texts.units(wanted):
            for unit in table.to_pylist():
                file.write(f"{before}\n{_json(unit['unit_id'])}: {_json(unit['text'])}")
                before = ","
        file.write("\n}}\n")
    return {"entities": len(nodes), "edges": num_edges}


class _SelectedNodes:
    """The selected nodes as rows, found by their row in the entities table."""

    def __init__(self, graph: Graph) -> None:
        is_attribute = graph.attribute_nodes()
        tables = []
        for rows, table in graph.entity_batches(mentions=True, standing=True):
            attribute = pa.array(is_attribute[rows])
            keyed = pc.binary_join_element_wise(table["type"], table["name"], ": ")
            columns = {
                "id": table["entity_id"],
                "name": pc.if_else(attribute, keyed, table["name"]),
                "attribute": attribute,
                "schema_type": table["type"],
                "chunk": _first_unit(table["mention_list"]),
                "standing": table["standing"],
            }
            tables.append(pa.table(columns))
        self.table = pa.concat_tables(tables)
        self._place = np.cumsum(graph.kept) - 1

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[Node]:
        """Nodes of {nodes, edges, chunks}."""
        for batch in self.table.to_batches():
            for row in batch.to_pylist():
                attribute = row.pop("attribute")
                level = {"label": "attribute", "level": 1} if attribute else _ENTITY
                standing = _mark(row.pop("standing"))
                yield {**row, **level, **standing}

    def take(self, rows: Ints) -> list[Node]:
        """Nodes of a triple."""
        table = self.table.take(pa.array(self._place[rows]))
        return [_node(row) for row in table.to_pylist()]


_ENTITY = {"label": "entity", "level": 2}


def _node(row: dict[str, Any]) -> Node:
    properties = {"name": row["name"], "chunk id": row["chunk"], "id": row["id"]}
    properties |= _mark(row["standing"])
    if row["attribute"]:
        return {"label": "attribute", "properties": properties}
    return {"label": "entity", "properties": {**properties, "schema_type": row["schema_type"]}}


def _mark(standing: str) -> dict[str, str]:
    return {"standing": standing} if marked(standing) else {}


def _first_unit(mentions: pa.ChunkedArray) -> pa.Array:
    """The unit of each row's first mention, "" for none."""
    lists = mentions.combine_chunks()
    units = pc.struct_field(pc.list_flatten(lists), "unit_id")
    lengths = pc.list_value_length(lists).to_numpy()
    starts = np.cumsum(lengths) - lengths
    first = pa.array(np.where(lengths > 0, starts, 0), mask=lengths == 0)
    return pc.fill_null(units.take(first), "")


def _triples(graph: Graph, nodes: _SelectedNodes) -> Iterator[Node]:
    for rows, table in graph.edge_batches():
        heads, tails = nodes.take(graph.heads[rows]), nodes.take(graph.tails[rows])
        for head, relation, tail in zip(heads, table["relation"].to_pylist(), tails, strict=True):
            yield {"start_node": head, "relation": relation, "end_node": tail}
    communities = _community_nodes(graph)
    for rows, table in graph.entity_batches():
        for node, community in zip(nodes.take(rows), table["community"].to_pylist(), strict=True):
            if community:
                end = communities[community]
                yield {"start_node": node, "relation": "member_of", "end_node": end}
    keywords = graph.topics.keywords
    at = pc.index_in(keywords["entity_id"], value_set=graph.ids).to_numpy()
    mine = graph.kept[at]
    rows = keywords.filter(pa.array(mine)).to_pylist()
    for node, keyword in zip(nodes.take(at[mine]), rows, strict=True):
        properties = {"name": keyword["name"], "id": keyword["entity_id"]}
        middle = {"label": "keyword", "properties": properties}
        end = communities[keyword["community_id"]]
        yield {"start_node": node, "relation": "represented_by", "end_node": middle}
        yield {"start_node": middle, "relation": "keyword_of", "end_node": end}


def _community_nodes(graph: Graph) -> dict[str, Node]:
    """The node of each community by its id."""
    topics = graph.topics
    named = zip(graph.community_ids, topics.names.to_pylist(), topics.summaries.to_pylist(),
                strict=True)  # fmt: skip
    return {
        key: {"label": "community", "properties": {"name": name, "description": text, "id": key}}
        for key, name, text in named
    }


def _pairs(graph: Graph) -> Iterator[list[str]]:
    for _, table in graph.edge_batches():
        columns = (table[name].to_pylist() for name in ("head_id", "relation", "tail_id"))
        yield from map(list, zip(*columns, strict=True))


def _write_list(file: TextIO, items: Iterable[Any]) -> int:
    """Write a JSON list, an item a line; return how many there were."""
    number = 0
    file.write("[")
    for number, item in enumerate(items, start=1):
        file.write(f"{',' if number > 1 else ''}\n{_json(item)}")
    file.write("\n]")
    return number


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
