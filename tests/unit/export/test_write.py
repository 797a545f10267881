from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import networkx
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from srrag.export.write import EDGES, NODES, inert, legal, write_graphml, write_neo4j
from tests.unit.export import graphs
from tests.unit.export.graphs import CONTROL, LINKS, QUOTED, SCRIPT, Retracted, Written, key


def test_networkx_opens_it_with_all_attributes(written: Written, tmp_path: Path) -> None:
    path = tmp_path / "graph.graphml"
    assert write_graphml(written.graph, path) == {
        "entities": len(graphs.NODES),
        "edges": len(LINKS),
    }
    graph = networkx.read_graphml(path)
    assert graph.is_directed()
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (len(graphs.NODES), len(LINKS))
    quoted = graph.nodes[key("quoted")]
    assert (quoted["name"], quoted["type"]) == (QUOTED, "Intervention")
    assert (quoted["mentions"], quoted["documents"], quoted["grade_A"]) == (3, 2, 1)
    assert (quoted["best_grade"], quoted["community"]) == ("A", key("right"))
    assert quoted["community_name"] == f"Exercise ({key('right')[:6]})"
    assert graph.nodes[key("script")]["name"] == SCRIPT
    between = graph.get_edge_data(key("quoted"), key("script"))
    assert {edge["relation"] for edge in between.values()} == {"affects", "worsens"}
    assert all(edge["confidence"] == 0.5 for edge in between.values())


def test_characters_that_xml_forbids_do_not_break_the_file(
    written: Written, tmp_path: Path
) -> None:
    path = tmp_path / "graph.graphml"
    write_graphml(written.graph, path)
    name = networkx.read_graphml(path).nodes[key("control")]["name"]
    assert name == "vertical\ufffdtab \ufffd and \ufffd"


@given(st.text(st.characters(exclude_categories=["Cs"])))
@settings(max_examples=300, deadline=None)
def test_any_text_is_legal_xml_once_cleaned(text: str) -> None:
    cleaned = legal(pa.table({"name": [text]}))["name"][0].as_py()
    element = etree.Element("data")
    element.text = cleaned
    kept = etree.fromstring(etree.tostring(element)).text or ""
    assert kept.replace("\n", "\r") == cleaned.replace("\n", "\r")
    assert len(cleaned) == len(text)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


def test_hostile_names_come_back_as_they_were(written: Written, tmp_path: Path) -> None:
    counts = write_neo4j(written.graph, tmp_path)
    assert counts == {"entities": len(graphs.NODES), "edges": len(LINKS)}
    nodes = {row["entity_id:ID"]: row for row in read(tmp_path / NODES)}
    assert nodes[key("quoted")]["name:string"] == QUOTED
    assert nodes[key("script")]["name:string"] == SCRIPT
    assert nodes[key("control")]["name:string"] == CONTROL
    assert nodes[key("quoted")][":LABEL"] == "Entity;Intervention"
    assert nodes[key("script")][":LABEL"] == "Entity;Outcome, of a kind", "one label, not two"
    assert nodes[key("quoted")]["mentions:int"] == "3"
    assert nodes[key("alone")]["community_name:string"] == "Å"
    documents = nodes[key("quoted")]["doc_ids:string[]"].split(";")
    assert sorted(documents) == sorted([key("d1"), key("d2")])


def test_every_edge_joins_two_nodes_of_the_file(written: Written, tmp_path: Path) -> None:
    write_neo4j(written.graph, tmp_path)
    ids = {row["entity_id:ID"] for row in read(tmp_path / NODES)}
    edges = read(tmp_path / EDGES)
    assert {row[":START_ID"] for row in edges} | {row[":END_ID"] for row in edges} <= ids
    assert {(r[":START_ID"], r[":TYPE"], r[":END_ID"]) for r in edges} == {
        (key(head), relation, key(tail)) for head, relation, tail, _, _ in LINKS
    }
    assert all(float(row["confidence:float"]) == 0.5 for row in edges)


def test_a_retracted_paper_carries_its_mark(written: Written, tmp_path: Path) -> None:
    graph = replace(written.graph, standings=Retracted("d2"))
    write_graphml(graph, tmp_path / "graph.graphml")
    nodes = networkx.read_graphml(tmp_path / "graph.graphml").nodes
    assert (nodes[key("trial")]["standing"], nodes[key("guide")]["standing"]) == (
        "retracted", "ok",
    )  # fmt: skip
    assert "standing" not in nodes[key("quoted")]
    write_neo4j(graph, tmp_path)
    rows = {row["entity_id:ID"]: row["standing:string"] for row in read(tmp_path / NODES)}
    assert [rows[key(name)] for name in ("trial", "guide", "quoted")] == ["retracted", "ok", ""]
    write_neo4j(written.graph, tmp_path)
    unknown = {row["standing:string"] for row in read(tmp_path / NODES)}
    assert unknown == {""}, "nobody looked"


def test_no_edges_leave_a_file_with_its_header(written: Written, tmp_path: Path) -> None:
    write_neo4j(written.graph.select(np.array([0])), tmp_path)
    assert read(tmp_path / EDGES) == []
    assert (tmp_path / EDGES).read_text().startswith(":START_ID,:END_ID,:TYPE,")


def test_no_text_is_a_formula_in_a_spreadsheet() -> None:
    names = ["=cmd|'/c calc'!A1", "+1", "-x", "@SUM(A1)", "\t=1", "-5", "pain", ""]
    found = inert(pa.table({"name": names, "n": range(8)}))
    assert found["name"].to_pylist() == [*(f"'{name}" for name in names[:5]), *names[5:]]
    assert found["n"].to_pylist() == [*range(8)]
