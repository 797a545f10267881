from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import networkx
import numpy as np
import pyarrow.parquet as pq
import pytest

from srrag.core.schema import COMMUNITIES, EDGES, ENTITIES
from srrag.export.graph import open_graph
from srrag.export.graphrag import write_graphrag
from srrag.export.select import select_community, select_entity
from srrag.export.write import write_graphml, write_neo4j
from srrag.export.youtu import write_nodes_and_edges, write_triples
from srrag.graph.foreign import read_graph
from tests.unit.export.graphs import KEYWORDS, LINKS, NODES, QUOTED, TITLES, Retracted, Written, key


def test_triples_hold_every_edge_and_every_membership(written: Written, tmp_path: Path) -> None:
    path = tmp_path / "triples.json"
    counts = write_triples(written.graph, path)
    triples = json.loads(path.read_text("utf-8"))
    assert counts["triples"] == len(triples) == len(LINKS) + len(NODES) + 2 * len(KEYWORDS)
    found = {
        (t["start_node"]["properties"]["id"], t["relation"], t["end_node"]["properties"].get("id"))
        for t in triples
        if t["end_node"]["label"] in ("entity", "attribute")
    }
    assert found == {(key(head), relation, key(tail)) for head, relation, tail, _, _ in LINKS}
    members = [t for t in triples if t["relation"] == "member_of"]
    assert {t["start_node"]["properties"]["id"] for t in members} == {key(name) for name in NODES}


def test_communities_have_names_summaries_and_keywords(written: Written, tmp_path: Path) -> None:
    path = tmp_path / "triples.json"
    write_triples(written.graph, path)
    triples = json.loads(path.read_text("utf-8"))
    ends = [t["end_node"] for t in triples if t["relation"] in ("member_of", "keyword_of")]
    named = {node["properties"]["name"]: node["properties"]["description"] for node in ends}
    left, right = (f"Exercise ({key(group)[:6]})" for group in ("left", "right"))
    assert named == {left: "It helps.", right: "Or not.", "Å": ""}
    above = {
        t["start_node"]["properties"]["name"]: t["end_node"]["properties"]["name"]
        for t in triples
        if t["relation"] == "keyword_of" and t["start_node"]["label"] == "keyword"
    }
    assert above == {"exercise": left, QUOTED: right}
    stood_for = {
        t["start_node"]["properties"]["id"] for t in triples if t["relation"] == "represented_by"
    }
    assert stood_for == {key("twin"), key("quoted")}


def test_a_selection_has_its_own_keywords_alone(written: Written, tmp_path: Path) -> None:
    ids = written.graph.ids.to_pylist()
    part = written.graph.select(np.array([ids.index(key("twin"))]))
    assert write_triples(part, tmp_path / "triples.json")["triples"] == 1 + 2


def test_nodes_have_the_shape_that_youtu_reads(written: Written, tmp_path: Path) -> None:
    path = tmp_path / "triples.json"
    write_triples(written.graph, path)
    triples = json.loads(path.read_text("utf-8"))
    triple = next(t for t in triples if t["start_node"]["properties"]["id"] == key("quoted"))
    assert triple["start_node"] == {
        "label": "entity",
        "properties": {
            "name": QUOTED, "chunk id": key("chunk d1"), "id": key("quoted"),
            "schema_type": "Intervention",
        },
    }  # fmt: skip
    value = next(t["end_node"] for t in triples if t["relation"] == "has_attribute")
    assert value["label"] == "attribute"
    assert value["properties"]["name"] == "frequency: daily"
    assert "schema_type" not in value["properties"]


def test_a_retracted_paper_carries_its_mark(written: Written, tmp_path: Path) -> None:
    graph = replace(written.graph, standings=Retracted("d2"))
    write_triples(graph, tmp_path / "triples.json")
    told = {
        node["properties"]["id"]: node["properties"].get("standing")
        for triple in json.loads((tmp_path / "triples.json").read_text("utf-8"))
        for node in (triple["start_node"], triple["end_node"])
        if node["label"] in ("entity", "attribute")
    }
    write_nodes_and_edges(graph, written.texts, tmp_path / "graph.json")
    nodes = json.loads((tmp_path / "graph.json").read_text("utf-8"))["nodes"]
    for marks in (told, {node["id"]: node.get("standing") for node in nodes}):
        assert {name for name, mark in marks.items() if mark} == {key("trial")}
        assert marks[key("trial")] == "retracted"
    for file in ("graph.json", "triples.json"):
        assert len(read_graph(tmp_path / file)[0]) >= len(NODES), "`srrag organize` reads it"


def test_nodes_edges_and_chunks_resolve(written: Written, tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    write_nodes_and_edges(written.graph, written.texts, path)
    graph = json.loads(path.read_text("utf-8"))
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert len(nodes) == len(graph["nodes"]) == len(NODES)
    assert {tuple(edge) for edge in graph["edges"]} == {
        (key(head), relation, key(tail)) for head, relation, tail, _, _ in LINKS
    }
    assert {node["chunk"] for node in nodes.values()} <= set(graph["chunks"])
    assert "40 adults" in graph["chunks"][key("chunk d1")]
    assert (nodes[key("dose")]["label"], nodes[key("dose")]["level"]) == ("attribute", 1)
    assert (nodes[key("alone")]["label"], nodes[key("alone")]["level"]) == ("entity", 2)


def test_no_format_trips_over_a_graph_without_nodes(written: Written, tmp_path: Path) -> None:
    for name, schema in (("entities", ENTITIES), ("edges", EDGES), ("communities", COMMUNITIES)):
        pq.write_table(schema.empty_table(), tmp_path / f"{name}.parquet")
    stages = {"entities": tmp_path, "communities": tmp_path, "units": written.artifacts["units"]}
    graph = open_graph(stages)
    out = tmp_path / "out"
    out.mkdir()
    assert write_graphml(graph, out / "graph.graphml") == {"entities": 0, "edges": 0}
    assert networkx.read_graphml(out / "graph.graphml").number_of_nodes() == 0
    assert write_neo4j(graph, out) == {"entities": 0, "edges": 0}
    counts = write_graphrag(graph, written.texts, out)
    assert counts == {
        "entities": 0, "edges": 0, "communities": 0, "reports": 0,
        "text_units": len(TITLES), "documents": len(TITLES),
    }  # fmt: skip
    write_triples(graph, out / "triples.json")
    assert json.loads((out / "triples.json").read_text()) == []
    write_nodes_and_edges(graph, written.texts, out / "graph.json")
    assert json.loads((out / "graph.json").read_text()) == {"nodes": [], "edges": [], "chunks": {}}
    with pytest.raises(ValueError, match="no communities"):
        select_community(graph)
    with pytest.raises(ValueError, match="nearest: none"):
        select_entity(graph, "pain")
