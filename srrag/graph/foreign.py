"""Communities of another tool's graph: read it, detect them, write a folder."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree  # for an error that networkx lets through

import networkx as nx
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.core.schema import EDGES, ENTITIES
from srrag.core.spec import file_sha256, spec
from srrag.core.step import Place, PreviousVersion
from srrag.graph.communities import DetectCommunities
from srrag.graph.name_vectors import EncodeNames
from srrag.storage import mirror
from srrag.storage.atomic_write import commit_json, read_json
from srrag.storage.manifest import check_files

NAMES = "names"
_log = logging.getLogger(__name__)


def read_graph(path: Path) -> tuple[pa.Table, pa.Table]:
    """Read {"nodes": [{"id", "name", …}], "edges": [[id, relation, id], …]} as ENTITIES and EDGES.

    A node is an attribute where `label` says so; `schema_type` is its type. Also Youtu-GraphRAG's
    list of relations, GraphML (LightRAG) and GraphRAG's relationships.parquet. Raises ValueError
    that names the file and the entry at fault.
    """
    suffix = path.suffix.lower()
    if suffix in (".graphml", ".parquet"):
        graph = _of_graphml(path) if suffix == ".graphml" else _of_graphrag(path)
    elif isinstance(graph := read_json(path), list) and graph:
        graph = _of_youtu(graph, path)
    for key in ("nodes", "edges"):
        if not isinstance(graph, dict) or not isinstance(graph.get(key), list):
            raise ValueError(f"{path}: {key!r} is missing or not a list")
    if not graph["nodes"]:
        raise ValueError(f"{path}: 'nodes' is empty: there is nothing to organize")
    attributes: dict[str, bool] = {}
    nodes = []
    for number, node in enumerate(graph["nodes"]):
        nodes.append(_node(node, f"{path}: nodes[{number}]"))
        entity_id = nodes[-1]["entity_id"]
        if entity_id in attributes:
            raise ValueError(f"{path}: nodes[{number}]: id {entity_id!r} is there twice")
        attributes[entity_id] = node.get("label") == "attribute"
    edges = [
        _edge(edge, number, attributes, f"{path}: edges[{number}]")
        for number, edge in enumerate(graph["edges"])
    ]
    return (
        pa.Table.from_pylist(nodes, schema=ENTITIES),
        pa.Table.from_pylist(edges, schema=EDGES),
    )


def _of_graphml(path: Path) -> dict[str, Any]:
    """Nodes and edges of GraphML, with the `entity_type` and `keywords` that LightRAG writes."""
    try:
        graph = nx.read_graphml(path)
    except (ElementTree.ParseError, nx.NetworkXError, KeyError, ValueError) as error:
        raise ValueError(f"{path}: no GraphML: {error}") from error
    nodes = [
        {"id": str(name), "name": str(name), "schema_type": str(data.get("entity_type", ""))}
        for name, data in graph.nodes(data=True)
    ]
    edges = [
        [str(head), str(data.get("keywords") or data.get("relation") or "related"), str(tail)]
        for head, tail, data in graph.edges(data=True)
    ]
    return {"nodes": nodes, "edges": edges}


def _of_graphrag(path: Path) -> dict[str, Any]:
    """Nodes and edges of GraphRAG's relationships.parquet; the types of nodes stand beside it.

    https://microsoft.github.io/graphrag/index/outputs/
    """
    try:
        table = pq.read_table(path, columns=["source", "target"])
    except (pa.ArrowException, KeyError) as error:
        raise ValueError(f"{path}: no `source` and `target` as in relationships.parquet") from error
    edges = [[row["source"], "related", row["target"]] for row in table.to_pylist()]
    beside = path.with_name("entities.parquet")
    held = pq.read_table(beside, columns=["title", "type"]).to_pylist() if beside.is_file() else []
    kinds = {name: "" for head, _, tail in edges for name in (head, tail)}
    kinds |= {row["title"]: row["type"] or "" for row in held}
    nodes = [{"id": name, "name": name, "schema_type": kind} for name, kind in kinds.items()]
    return {"nodes": nodes, "edges": edges}


def _of_youtu(relations: list[Any], path: Path) -> dict[str, Any]:
    """Nodes and edges of [{"start_node": {label, properties}, "relation", "end_node"}, …]."""
    nodes: dict[str, dict[str, Any]] = {}
    edges = []
    for number, each in enumerate(relations):
        ends = []
        for key in ("start_node", "end_node"):
            try:
                label, said = each[key]["label"], each[key]["properties"]
                name, kind = str(said["name"]), said.get("schema_type", "")
            except (KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"{path}: [{number}]: no {key!r} with a label and name") from error
            ends.append(f"{label}:{name}")
            nodes[ends[-1]] = {"id": ends[-1], "name": name, "label": label, "schema_type": kind}
        edges.append([ends[0], each.get("relation"), ends[1]])
    return {"nodes": list(nodes.values()), "edges": edges}


def _node(node: Any, where: str) -> dict[str, Any]:
    if not isinstance(node, dict):
        raise ValueError(f"{where} is not an object")
    for key in ("id", "name"):
        if not isinstance(node.get(key), str) or not node[key]:
            raise ValueError(f"{where}: {key!r} is missing or not a text")
    kind = node.get("schema_type") or node.get("label") or ""
    if not isinstance(kind, str):
        raise ValueError(f"{where}: 'schema_type' is not a text")
    return {"entity_id": node["id"], "name": node["name"], "type": kind, "mentions": []}


def _edge(edge: Any, number: int, attributes: dict[str, bool], where: str) -> dict[str, Any]:
    texts = isinstance(edge, list) and all(isinstance(item, str) for item in edge)
    if not texts or len(edge) != 3:
        raise ValueError(f"{where} is not [id, relation, id]: {json.dumps(edge)[:80]}")
    head, relation, tail = edge
    for end in (head, tail):
        if end not in attributes:
            raise ValueError(f"{where}: {end!r} is the id of no node")
    return {
        "edge_id": str(number),
        "kind": "attribute" if attributes[tail] else "relation",
        "head_id": head,
        "relation": relation,
        "tail_id": tail,
        "confidence": 1.0,
        "mentions": [],
    }


def organized(
    names: EncodeNames,
    step: DetectCommunities,
    nodes: pa.Table,
    edges: pa.Table,
    folder: Path,
    at: Place,
) -> dict[str, Any]:
    """Find the communities of ENTITIES and EDGES and write all into a folder.

    The folder is made beside the existing one, whose vectors of names are reused; then the two are
    swapped. Former communities do not carry over: they depend on the graph alone. Returns the
    figures of both builds.
    """
    made_by = {"encoder": spec(names.encoder), "version": names.version}
    out = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    (out / NAMES).mkdir(parents=True)
    try:
        pq.write_table(nodes, out / "entities.parquet")
        pq.write_table(edges, out / "edges.parquet")
        inputs = {names.entities: [out], step.names: [out / NAMES]}
        if _stands(folder, made_by):
            former = PreviousVersion(folder / NAMES, frozenset())
            encoded = names.update(inputs, out / NAMES, at, former)
        else:
            encoded = names.build(inputs, out / NAMES, at)
        figures = {**encoded, **step.build(inputs, out, at)}
        files = sorted(path for path in out.rglob("*") if path.is_file())
        hashes = {path.relative_to(out).as_posix(): file_sha256(path) for path in files}
        commit_json(out / "manifest.json", {**made_by, "files": hashes})
        mirror.move_folder(out, folder)
    finally:
        mirror.remove_folder(out)
    return figures


def _stands(folder: Path, made_by: Mapping[str, Any]) -> bool:
    """Whether the folder is complete and the same encoder made it."""
    path = folder / "manifest.json"
    if not mirror.exists(path) or not made_by.items() <= read_json(path).items():
        return False
    try:
        check_files(folder)
    except ValueError as error:
        _log.warning("names are encoded again: %s", error)
        return False
    return (folder / NAMES).is_dir()


def coverage(nodes: pa.ChunkedArray, members: pa.ChunkedArray) -> float:
    """Share of the nodes that are in exactly one community."""
    once = pc.value_counts(members)
    single = pc.struct_field(once, "values").filter(pc.equal(pc.struct_field(once, "counts"), 1))
    covered = pc.sum(pc.is_in(nodes, value_set=single)).as_py() or 0
    return covered / len(nodes) if len(nodes) else 1.0
