"""`srrag organize graph.path=FILE.json`: the communities of a graph that another tool made."""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.config import factory
from srrag.errors import UsageError, reading
from srrag.graph.communities import DetectCommunities
from srrag.ids import file_sha256
from srrag.kinds import renamed
from srrag.runner.progress import say
from srrag.schema import EDGES, ENTITIES
from srrag.spec import spec
from srrag.step import Place, PreviousVersion
from srrag.storage import mirror
from srrag.storage.atomic_write import commit_json, read_json
from srrag.storage.manifest import check_files
from srrag.storage.store import Store


def run(config: dict[str, Any]) -> dict[str, Any]:
    """Read the graph, find its communities, and write both into `root`.

    It reuses the vectors of names that `root` has already.
    """
    path = Path(config["graph"]["path"])
    if not path.is_file():
        raise UsageError(f"graph.path={path} is not a file")
    step = factory.make(config["communities"], "communities")
    with reading(path):
        nodes, edges = read_graph(path)
    store = Store(config["root"])
    store.create()
    folder = store.root / "organize"
    with store.lock():
        started = time.perf_counter()
        figures = _organized(step, nodes, edges, folder, factory.place(config))
        seconds = time.perf_counter() - started - figures["encoding_seconds"]
    found = pq.read_table(folder / "communities.parquet")
    summary = {
        "communities": figures["communities"],
        "coverage": coverage(nodes["entity_id"], found["entity_id"]),
        "seconds": round(seconds, 3),
        "communities_path": str(folder / "communities.parquet"),
        "nodes": nodes.num_rows,
        "edges": edges.num_rows,
        **figures,
    }
    say(
        f"{summary['communities']} communities of {summary['nodes']} nodes after "
        f"{summary['merges']} merges, modularity {summary['modularity']}"
    )
    return summary


def _organized(
    step: DetectCommunities, nodes: pa.Table, edges: pa.Table, folder: Path, at: Place
) -> dict[str, Any]:
    """Make the folder beside the existing one, reuse its vectors, and swap the two."""
    made_by = {"encoder": spec(step.encoder), "version": step.version}
    out = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    out.mkdir()
    try:
        pq.write_table(nodes, out / "entities.parquet")
        pq.write_table(edges, out / "edges.parquet")
        inputs = {step.entities: [out]}
        if _stands(folder, made_by):
            # Former communities do not carry over: they depend on the graph alone.
            anew = replace(step, max_drift=0.0)
            figures = dict(anew.update(inputs, out, at, PreviousVersion(folder, frozenset())))
        else:
            figures = dict(step.build(inputs, out, at))
        files = {path.name: file_sha256(path) for path in sorted(out.iterdir())}
        commit_json(out / "manifest.json", {**made_by, "files": files})
        mirror.move_folder(out, folder)
    finally:
        mirror.remove_folder(out)
    return figures


def _stands(folder: Path, made_by: Mapping[str, Any]) -> bool:
    """Whether the folder is complete and the same encoder made it."""
    path = folder / "manifest.json"
    if not mirror.exists(path) or not made_by.items() <= renamed(read_json(path)).items():
        return False
    try:
        check_files(folder)
    except ValueError as error:
        say(f"names are encoded again: {error}")
        return False
    return True


def coverage(nodes: pa.ChunkedArray, members: pa.ChunkedArray) -> float:
    """Share of the nodes that are in exactly one community."""
    once = pc.value_counts(members)
    single = pc.struct_field(once, "values").filter(pc.equal(pc.struct_field(once, "counts"), 1))
    covered = pc.sum(pc.is_in(nodes, value_set=single)).as_py() or 0
    return covered / len(nodes) if len(nodes) else 1.0


def read_graph(path: Path) -> tuple[pa.Table, pa.Table]:
    """Read {"nodes": [{"id", "name", …}], "edges": [[id, relation, id], …]} as ENTITIES and EDGES.

    A node is an attribute where `label` says so; `schema_type` is its type. Raises ValueError that
    names the file and the entry at fault.
    """
    graph = read_json(path)
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


if __name__ == "__main__":
    from srrag.config.run_job import launch

    sys.exit(launch("organize", run, sys.argv[1:]))
