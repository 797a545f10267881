"""Node and edge CSV files in the header format of `neo4j-admin database import`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from srrag.export.graph import GRADE_COLUMNS, Graph

_TYPES = {"mentions": "int", "documents": "int", "confidence": "float"} | dict.fromkeys(
    GRADE_COLUMNS, "int"
)
NODES, EDGES = "nodes.csv", "edges.csv"
IMPORT = (
    "neo4j-admin database import full --multiline-fields=true "
    f"--nodes={NODES} --relationships={EDGES} neo4j"
)
"""The command that reads the two files; a name may hold a line break, hence the flag."""


def write_neo4j(graph: Graph, folder: Path) -> dict[str, int]:
    """Write both files; return how many nodes and edges there are.

    The label of a node is "Entity" and its type, the type of an edge is its relation.
    """
    return {
        "entities": _write(
            folder / NODES, (_nodes(t) for _, t in graph.entity_batches(mentions=True, topics=True))
        ),
        "edges": _write(folder / EDGES, (_edges(t) for _, t in graph.edge_batches())),
    }


def _nodes(table: pa.Table) -> pa.Table:
    labels = pc.binary_join_element_wise("Entity", element(table["type"]), ";")
    doc_ids = pc.list_flatten(table["mention_list"])
    parents = pc.list_parent_indices(table["mention_list"])
    columns = {"entity_id:ID": table["entity_id"], ":LABEL": labels}
    for name in table.column_names:
        if name not in ("entity_id", "mention_list"):
            columns[_header(name)] = table[name]
    columns["doc_ids:string[]"] = _joined(parents, pc.struct_field(doc_ids, "doc_id"), len(table))
    return pa.table(columns)


def _edges(table: pa.Table) -> pa.Table:
    ends = {":START_ID": "head_id", ":END_ID": "tail_id", ":TYPE": "relation", "edge_id": "edge_id"}
    columns = {header: table[name] for header, name in ends.items()}
    return pa.table(columns | {_header(n): table[n] for n in ("kind", "confidence", "mentions")})


def _header(name: str) -> str:
    return f"{name}:{_TYPES.get(name, 'string')}"


def element(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values as elements of an array: neo4j-admin knows no escape for the ';' between them."""
    return pc.replace_substring(column, ";", ",")


def _joined(parents: pa.ChunkedArray, values: pa.ChunkedArray, num_rows: int) -> pa.Array:
    """Distinct values of each parent row, in order of first occurrence, joined by ';'."""
    pairs = pa.table({"row": parents, "value": element(values)})
    first = pairs.group_by(["row", "value"], use_threads=False).aggregate([])
    lists = first.group_by("row", use_threads=False).aggregate([("value", "list")])
    joined = pc.binary_join(lists["value_list"], ";")
    place = pc.index_in(pa.array(range(num_rows), pa.int64()), value_set=lists["row"])
    return pc.fill_null(joined.take(place), "")


def inert(table: pa.Table) -> pa.Table:
    """Texts that a spreadsheet would take for a formula, behind an apostrophe."""
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            text = pc.replace_substring_regex(table[place], r"^([=+@\t\r]|-\D)", r"'\1")
            table = table.set_column(place, field, text)
    return table


def _write(path: Path, tables: Iterator[pa.Table]) -> int:
    """Write the tables as one CSV file with a bare header line; return the number of rows."""
    num_rows = 0
    options = csv.WriteOptions(include_header=False, quoting_style="needed")
    with path.open("wb") as file:
        for number, table in enumerate(tables):
            if number == 0:
                file.write((",".join(table.column_names) + "\n").encode())
            csv.write_csv(inert(table), file, options)
            num_rows += table.num_rows
    return num_rows
