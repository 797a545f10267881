from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.organize import run
from srrag.config.compose import configure
from srrag.core.errors import UsageError
from srrag.core.spec import file_sha256
from srrag.graph.foreign import coverage, read_graph
from srrag.graph.name_vectors import NameVectors

NODES = [
    {"id": "e1", "name": "knee pain", "label": "entity", "schema_type": "outcome", "level": 2},
    {"id": "e2", "name": "knee brace", "label": "entity", "schema_type": "intervention"},
    {"id": "a1", "name": "dose: 5 mg", "label": "attribute"},
]
EDGES = [["e2", "affects", "e1"], ["e2", "has_attribute", "a1"]]


def write(path: Path, graph: Any) -> Path:
    path.write_text(json.dumps(graph))
    return path


def test_a_graph_goes_in_and_communities_come_out(tmp_path: Path) -> None:
    file = write(tmp_path / "graph.json", {"nodes": NODES, "edges": EDGES})
    config = configure("organize", [f"graph.path={file}", f"root={tmp_path / 'root'}"])
    summary = run({**config, "command": "test"})
    table = pq.read_table(summary["communities_path"])
    assert table.column_names == ["entity_id", "community_id"]
    assert sorted(table["entity_id"].to_pylist()) == ["a1", "e1", "e2"]
    assert len(set(table["community_id"].to_pylist())) == summary["communities"] == 1
    assert summary["coverage"] == 1.0
    assert summary["nodes"] == 3
    for key in ("seconds", "encoding_seconds", "initial_communities", "merges", "modularity"):
        assert key in summary
    assert json.loads(json.dumps(summary)) == summary
    again = run({**config, "command": "test"})
    assert pq.read_table(again["communities_path"]).equals(table)


def test_names_are_not_encoded_again_unless_by_another_encoder(tmp_path: Path) -> None:
    """Vectors that no encoder would make are put among what stands, to be known again."""
    file = write(tmp_path / "graph.json", {"nodes": NODES, "edges": EDGES})
    asked = [f"graph.path={file}", f"root={tmp_path / 'root'}"]
    folder = Path(run(configure("organize", asked))["communities_path"]).parent
    file_of_vectors = folder / "names" / "vectors-00000.npy"
    made = np.load(file_of_vectors)
    marked = np.roll(made, 7, axis=1)
    np.save(file_of_vectors, marked)
    run(configure("organize", asked))
    assert np.array_equal(np.load(file_of_vectors), made), "not as it was"
    np.save(file_of_vectors, marked)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["names/vectors-00000.npy"] = file_sha256(file_of_vectors)
    write(folder / "manifest.json", manifest)
    before = NameVectors(folder / "names").ids.to_pylist()
    write(file, {"nodes": [*NODES, {"id": "e0", "name": "rest"}], "edges": EDGES})
    summary = run(configure("organize", asked))
    held = NameVectors(folder / "names")
    assert set(held.ids.to_pylist()) == {"e0", "e1", "e2"}
    places = [held.ids.to_pylist().index(each) for each in before]
    values = np.concatenate([shard.values for shard in held.shards])
    assert np.array_equal(values[places], marked)
    assert summary["coverage"] == 1.0
    run(configure("organize", [*asked, "+embedder.max_tokens=99"]))
    held = NameVectors(folder / "names")
    values = np.concatenate([shard.values for shard in held.shards])
    places = [held.ids.to_pylist().index(each) for each in before]
    assert np.array_equal(values[places], made)
    assert [path.name for path in folder.parent.glob(".organize*")] == []


@pytest.mark.parametrize(
    ("graph", "hint"),
    [
        ([], "'nodes' is missing"),
        ({"nodes": NODES}, "'edges' is missing"),
        ({"nodes": [], "edges": []}, "'nodes' is empty"),
        ({"nodes": {}, "edges": []}, "'nodes' is missing or not a list"),
        ({"nodes": [*NODES, 3], "edges": []}, r"nodes\[3\] is not an object"),
        ({"nodes": [{"name": "x"}], "edges": []}, r"nodes\[0\]: 'id'"),
        ({"nodes": [{"id": "x", "name": ""}], "edges": []}, r"nodes\[0\]: 'name'"),
        ({"nodes": [{"id": "x", "name": "x", "schema_type": 3}], "edges": []}, "'schema_type'"),
        ({"nodes": [*NODES, NODES[0]], "edges": []}, r"nodes\[3\]: id 'e1' is there twice"),
        ({"nodes": NODES, "edges": [*EDGES, ["e1", "r"]]}, r"edges\[2\] is not"),
        ({"nodes": NODES, "edges": [["e1", 1, "e2"]]}, r"edges\[0\] is not"),
        ({"nodes": NODES, "edges": [["e1", "r", "e9"]]}, r"edges\[0\]: 'e9' is the id of no node"),
    ],
)
def test_a_broken_graph_is_one_line_with_the_place(tmp_path: Path, graph: Any, hint: str) -> None:
    file = write(tmp_path / "graph.json", graph)
    with pytest.raises(ValueError, match=hint) as caught:
        read_graph(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_not_json_is_named_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    file.write_text('{"nodes": [\n  {"id": }]}')
    with pytest.raises(ValueError, match=r"graph.json: not valid JSON .*line 2 column 10"):
        read_graph(file)


def test_a_graph_without_nodes_is_wrong_usage(tmp_path: Path) -> None:
    file = write(tmp_path / "graph.json", {"nodes": [], "edges": []})
    with pytest.raises(UsageError, match=r"graph\.json: 'nodes' is empty"):
        run(configure("organize", [f"graph.path={file}", f"root={tmp_path / 'r'}"]))
    assert not (tmp_path / "r").exists()


def test_a_missing_file_is_wrong_usage(tmp_path: Path) -> None:
    config = configure("organize", [f"graph.path={tmp_path / 'none'}", f"root={tmp_path / 'r'}"])
    with pytest.raises(UsageError, match=r"graph\.path"):
        run({**config, "command": "test"})
    assert not (tmp_path / "r").exists()


def test_coverage_counts_nodes_in_exactly_one_community() -> None:
    nodes = pa.chunked_array([["a", "b", "c", "d"]])
    assert coverage(nodes, pa.chunked_array([["a", "b", "b", "c", "x"]])) == 0.5
    empty = pa.chunked_array([pa.array([], pa.string())])
    assert coverage(empty, empty) == 1.0
    assert coverage(nodes, empty) == 0.0


def test_graphs_of_other_tools_are_read(tmp_path: Path) -> None:
    """Youtu-GraphRAG's relations, LightRAG's GraphML, GraphRAG's table of relationships."""
    node = {"label": "entity", "properties": {"name": "gout", "schema_type": "disease"}}
    dose = {"label": "attribute", "properties": {"name": "dose: 5 mg"}}
    youtu = tmp_path / "youtu.json"
    youtu.write_text(json.dumps([{"start_node": node, "relation": "has", "end_node": dose}]))
    drawn = networkx.Graph()
    drawn.add_node("GOUT", entity_type="disease")
    drawn.add_edge("GOUT", "DRUG Q", keywords="treatment")
    networkx.write_graphml(drawn, tmp_path / "lightrag.graphml")
    table = pa.table({"source": ["GOUT"], "target": ["DRUG Q"], "weight": [2.0]})
    pq.write_table(table, tmp_path / "relationships.parquet")
    types = pa.table({"title": ["GOUT"], "type": ["disease"]})
    pq.write_table(types, tmp_path / "entities.parquet")
    found = {}
    for name in ("youtu.json", "lightrag.graphml", "relationships.parquet"):
        nodes, edges = read_graph(tmp_path / name)
        held = dict(zip(nodes["name"].to_pylist(), nodes["type"].to_pylist(), strict=True))
        found[name] = (held, edges["kind"].to_pylist(), edges["relation"].to_pylist())
    assert found == {
        "youtu.json": ({"gout": "disease", "dose: 5 mg": "attribute"}, ["attribute"], ["has"]),
        "lightrag.graphml": ({"GOUT": "disease", "DRUG Q": ""}, ["relation"], ["treatment"]),
        "relationships.parquet": ({"GOUT": "disease", "DRUG Q": ""}, ["relation"], ["related"]),
    }


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.graphml", "<graphml", "no GraphML"),
        ("a.parquet", "PAR1", "no `source` and `target`"),
        ("a.json", '[{"relation": "has"}]', r"\[0\]: no 'start_node'"),
    ],
)
def test_a_broken_graph_of_another_tool_is_named(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=said):
        read_graph(tmp_path / name)
