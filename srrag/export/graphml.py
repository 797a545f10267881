"""GraphML: one XML file that Gephi, yEd, Cytoscape, igraph and networkx open."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lxml import etree

from srrag.export.graph import GRADE_COLUMNS, Graph

_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
# XML 1.0, section 2.2: what is no Char may not occur, not even as a character reference.
_FORBIDDEN = r"[\x{0}-\x{8}\x{B}\x{C}\x{E}-\x{1F}\x{FFFE}\x{FFFF}]"

_NODE = {
    "name": "string",
    "type": "string",
    "community": "string",
    "community_name": "string",
    "mentions": "int",
    "documents": "int",
    "best_grade": "string",
    **dict.fromkeys(GRADE_COLUMNS, "int"),
}
_EDGE = {"relation": "string", "kind": "string", "confidence": "double", "mentions": "int"}


def write_graphml(graph: Graph, path: Path) -> dict[str, int]:
    """Write nodes, then edges, element by element; return how many there are."""
    counts = {"entities": 0, "edges": 0}
    with etree.xmlfile(str(path), encoding="utf-8") as file:
        file.write_declaration()
        with file.element("graphml", nsmap={None: _NAMESPACE}):
            for domain, columns in (("node", _NODE), ("edge", _EDGE)):
                for name, kind in columns.items():
                    file.write(_key(domain, name, kind))
            with file.element("graph", id="G", edgedefault="directed"):
                for _, table in graph.entity_batches(topics=True):
                    file.write(*_nodes(legal(table)), "\n")
                    counts["entities"] += table.num_rows
                for _, table in graph.edge_batches():
                    file.write(*_edges(legal(table)), "\n")
                    counts["edges"] += table.num_rows
    return counts


def legal(table: pa.Table) -> pa.Table:
    """Put U+FFFD for every character that XML 1.0 forbids."""
    columns = [
        pc.replace_substring_regex(column, _FORBIDDEN, "\ufffd")
        if pa.types.is_string(column.type)
        else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def _key(domain: str, name: str, kind: str) -> Any:
    attributes = {"id": f"{domain}_{name}", "for": domain, "attr.name": name, "attr.type": kind}
    return etree.Element("key", attributes)


def _nodes(table: pa.Table) -> Iterable[Any]:
    present = [name for name in _NODE if name in table.column_names]
    for row in table.to_pylist():
        yield _with_values(etree.Element("node", id=row["entity_id"]), "node", present, row)


def _edges(table: pa.Table) -> Iterable[Any]:
    for row in table.to_pylist():
        ends = {"source": row["head_id"], "target": row["tail_id"]}
        yield _with_values(etree.Element("edge", id=row["edge_id"], **ends), "edge", _EDGE, row)


def _with_values(element: Any, domain: str, names: Iterable[str], row: dict[str, Any]) -> Any:
    """Add a `data` element for each value that says something: no empty text, no zero count."""
    for name in names:
        if row[name]:
            etree.SubElement(element, "data", key=f"{domain}_{name}").text = str(row[name])
    return element
