"""A build of documents in which no fact was found has a graph without nodes: no format trips."""

from __future__ import annotations

import json
from pathlib import Path

import networkx
import pyarrow.parquet as pq
import pytest

from srrag.core.schema import COMMUNITIES, EDGES, ENTITIES
from srrag.export.graph import open_graph
from srrag.export.graphrag import write_graphrag
from srrag.export.neo4j_csv import write_neo4j
from srrag.export.select import select_community, select_entity
from srrag.export.write import write_graphml
from srrag.export.youtu import write_nodes_and_edges, write_triples
from tests.unit.export.graphs import TITLES, Written


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
