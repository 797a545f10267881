from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa

from srrag.export.write import EDGES, NODES, inert, write_neo4j
from tests.unit.export import graphs
from tests.unit.export.graphs import CONTROL, LINKS, QUOTED, SCRIPT, Written, key


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


def test_no_edges_leave_a_file_with_its_header(written: Written, tmp_path: Path) -> None:
    write_neo4j(written.graph.select(np.array([0])), tmp_path)
    assert read(tmp_path / EDGES) == []
    assert (tmp_path / EDGES).read_text().startswith(":START_ID,:END_ID,:TYPE,")


def test_no_text_is_a_formula_in_a_spreadsheet() -> None:
    names = ["=cmd|'/c calc'!A1", "+1", "-x", "@SUM(A1)", "\t=1", "-5", "pain", ""]
    found = inert(pa.table({"name": names, "n": range(8)}))
    assert found["name"].to_pylist() == [*(f"'{name}" for name in names[:5]), *names[5:]]
    assert found["n"].to_pylist() == [*range(8)]
