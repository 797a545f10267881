"""The graph of a build, or a part of it, for another tool: GraphML, Neo4j and others."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lxml import etree
from pyarrow import csv

from srrag.core.errors import UsageError
from srrag.core.pipeline import without_graph
from srrag.export.graph import GRADE_COLUMNS, Graph, open_graph, open_texts
from srrag.export.graphrag import write_graphrag
from srrag.export.select import Selection, select_community, select_entity
from srrag.export.youtu import write_nodes_and_edges, write_triples
from srrag.storage.manifest import check_files
from srrag.storage.store import Store

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
        "entities": _write_csv(
            folder / NODES,
            (
                _node_columns(t)
                for _, t in graph.entity_batches(mentions=True, topics=True, standing=True)
            ),
        ),
        "edges": _write_csv(folder / EDGES, (_edge_columns(t) for _, t in graph.edge_batches())),
    }


def _node_columns(table: pa.Table) -> pa.Table:
    labels = pc.binary_join_element_wise("Entity", element(table["type"]), ";")
    doc_ids = pc.list_flatten(table["mention_list"])
    parents = pc.list_parent_indices(table["mention_list"])
    columns = {"entity_id:ID": table["entity_id"], ":LABEL": labels}
    for name in table.column_names:
        if name not in ("entity_id", "mention_list"):
            columns[_header(name)] = table[name]
    columns["doc_ids:string[]"] = _joined(parents, pc.struct_field(doc_ids, "doc_id"), len(table))
    return pa.table(columns)


def _edge_columns(table: pa.Table) -> pa.Table:
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


def _write_csv(path: Path, tables: Iterator[pa.Table]) -> int:
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
    "standing": "string",
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
                for _, table in graph.entity_batches(topics=True, standing=True):
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


Parts = Mapping[str, list[Path]]
CHECKED = ("entities", "communities", "units")


@dataclass(frozen=True)
class ExportedGraph:
    """The content of an export: the graph or the selected part, and the build's parts."""

    graph: Graph
    parts: Parts
    selection: Selection | None


def _page(source: ExportedGraph, folder: Path, max_nodes: int) -> dict[str, int]:
    from srrag.export.page import write_page  # the library that lays out a page loads slowly

    # Nobody reads a whole graph: by default the page shows the largest community.
    selection = source.selection or select_community(source.graph)
    return write_page(source.graph, selection, folder / "graph.html", max_nodes)


Writer = Callable[[ExportedGraph, Path, int], dict[str, int]]
FORMATS: dict[str, Writer] = {
    "graphml": lambda s, out, _: write_graphml(s.graph, out / "graph.graphml"),
    "graphrag": lambda s, out, _: write_graphrag(s.graph, open_texts(s.parts), out),
    "neo4j": lambda s, out, _: write_neo4j(s.graph, out),
    "youtu": lambda s, out, _: write_triples(s.graph, out / "triples.json"),
    "json": lambda s, out, _: write_nodes_and_edges(
        s.graph, open_texts(s.parts), out / "graph.json"
    ),
    "html": _page,
}


def open_exported(
    store: Store, build: str, *, community: str = "", entity: str = "", hops: int = 1,
    whole: bool = False,
) -> ExportedGraph:  # fmt: skip
    """Open the graph of a build, checked against its hashes, and select a part of it.

    The part is a community, or the nodes within `hops` of an entity. With `whole`, the graph stays
    whole beside the selection, as a page needs it.
    """
    stages = store.read_pointer(build)["stages"]
    artifacts = store.artifacts(build)
    for stage in CHECKED:
        if stage in artifacts:
            check_files(artifacts[stage])
    parts = {
        stage: [store.part_path(stage, entry["fingerprint"], part) for part in entry["parts"]]
        for stage, entry in stages.items()
        if "parts" in entry
    }
    if "entities" not in artifacts:
        raise UsageError(without_graph(store, build))
    graph = open_graph(artifacts)
    selection = None
    if entity:
        selection = select_entity(graph, entity, hops)
    elif community:
        selection = select_community(graph, community)
    if selection is not None and not whole:
        graph = graph.select(selection.rows)
    return ExportedGraph(graph, parts, selection)


def write_atomically(
    out: Path, write: Callable[[Path], dict[str, int]]
) -> tuple[list[str], dict[str, int]]:
    """Write into a folder beside `out`, then move each file over its namesake in `out`.

    A reader sees the old file or the new one; a run that fails leaves what was there.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as made:
        folder = Path(made)
        counts = write(folder)
        files = sorted(path.name for path in folder.iterdir())
        out.mkdir(exist_ok=True)
        for file in files:
            (folder / file).replace(out / file)
    return files, counts
