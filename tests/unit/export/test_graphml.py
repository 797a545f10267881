from __future__ import annotations

from pathlib import Path

import networkx
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from srrag.export.write import legal, write_graphml
from tests.unit.export.graphs import LINKS, NODES, QUOTED, SCRIPT, Written, key


def test_networkx_opens_it_with_all_attributes(written: Written, tmp_path: Path) -> None:
    path = tmp_path / "graph.graphml"
    assert write_graphml(written.graph, path) == {"entities": len(NODES), "edges": len(LINKS)}
    graph = networkx.read_graphml(path)
    assert graph.is_directed()
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (len(NODES), len(LINKS))
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
