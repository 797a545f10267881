from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.ids import segment_id
from srrag.model.embed import load
from srrag.model.encoder import Encoder
from srrag.organize.communities import VECTOR_IDS, VECTORS, DetectCommunities
from srrag.schema import COMMUNITIES, EDGES, ENTITIES
from srrag.step import Place

Node = tuple[str, str, str]
Edge = tuple[str, str, str, str]
"""Kind, head, relation, tail."""

TOPICS = {
    "ankle": ["ankle sprain", "ankle taping", "ankle brace", "ankle swelling", "ankle balance"],
    "migraine": ["migraine attack", "migraine aura", "triptan for migraine", "migraine headache",
                 "migraine days"],
}  # fmt: skip


def sample() -> tuple[list[Node], list[Edge]]:
    """Two topics, each a clique, one attribute an entity, and one entity alone."""
    nodes: list[Node] = [("z-alone", "economic cost of screening", "Outcome")]
    edges: list[Edge] = []
    for topic, names in TOPICS.items():
        ids = [f"{topic}{n}" for n in range(len(names))]
        for n, (id_, name) in enumerate(zip(ids, names, strict=True)):
            nodes += [(id_, name, "Condition"), (f"attribute of {id_}", "dose: 5 mg", "dose")]
            edges.append(("attribute", id_, "has_attribute", f"attribute of {id_}"))
            edges += [("relation", id_, "affects", other) for other in ids[:n]]
    return nodes, edges


def write(folder: Path, nodes: list[Node], edges: list[Edge]) -> Path:
    graph = folder / "graph"
    graph.mkdir(parents=True)
    entities = [{"entity_id": i, "name": n, "type": t, "mentions": []} for i, n, t in nodes]
    pq.write_table(pa.Table.from_pylist(entities, schema=ENTITIES), graph / "entities.parquet")
    rows = [
        {
            "edge_id": str(number), "kind": kind, "head_id": head, "relation": relation,
            "tail_id": tail, "confidence": 1.0, "mentions": [],
        }
        for number, (kind, head, relation, tail) in enumerate(edges)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, schema=EDGES), graph / "edges.parquet")
    return graph


def build(
    folder: Path, nodes: list[Node], edges: list[Edge], step: DetectCommunities | None = None
) -> tuple[dict[str, str], dict[str, float | int | str]]:
    """The community of each node, and the figures."""
    graph = write(folder, nodes, edges)
    figures = (step or DetectCommunities()).build({"entities": [graph]}, folder, Place())
    table = pq.read_table(folder / "communities.parquet")
    assert table.schema.equals(COMMUNITIES)
    assert table["entity_id"].to_pylist() == sorted(node[0] for node in nodes)
    found = dict(zip(*table.to_pydict().values(), strict=True))
    assert figures["communities"] == len(set(found.values()))
    return found, figures


def test_every_node_is_in_one_community_named_by_its_members(tmp_path: Path) -> None:
    nodes, edges = sample()
    found, figures = build(tmp_path, nodes, edges)
    assert found.keys() == {node[0] for node in nodes}
    for community in set(found.values()):
        assert community == segment_id(sorted(n for n in found if found[n] == community))
    assert len({found[f"ankle{n}"] for n in range(5)}) == 1
    assert len({found[f"migraine{n}"] for n in range(5)}) == 1
    assert found["ankle0"] != found["migraine0"]
    initial, merges = figures["initial_communities"], figures["merges"]
    assert isinstance(initial, int) and isinstance(merges, int)
    assert initial - merges == figures["communities"]


def test_an_attribute_follows_its_entity(tmp_path: Path) -> None:
    found, _ = build(tmp_path, *sample())
    for topic in TOPICS:
        for n in range(5):
            assert found[f"attribute of {topic}{n}"] == found[f"{topic}{n}"]


def test_an_attribute_of_two_goes_to_the_first_and_one_of_none_stands_alone(tmp_path: Path) -> None:
    nodes = [("b", "knee pain", "Outcome"), ("a", "stroke", "Outcome"), ("x", "age: 5", "age")]
    edges = [("attribute", "b", "has", "x"), ("attribute", "a", "has", "x")]
    found, _ = build(tmp_path / "1", nodes, edges)
    assert found["x"] == found["a"]
    found, _ = build(tmp_path / "2", [("x", "age: 5", "age")], [])
    assert found == {"x": segment_id(["x"])}


def test_nodes_that_are_attributes_of_each_other_are_covered(tmp_path: Path) -> None:
    nodes = [("a", "one", "t"), ("b", "two", "t")]
    edges = [("attribute", "a", "has", "b"), ("attribute", "b", "has", "a")]
    found, figures = build(tmp_path, nodes, edges)
    assert found.keys() == {"a", "b"}
    assert figures["communities"] in (1, 2)


def test_the_order_of_the_input_does_not_matter(tmp_path: Path) -> None:
    nodes, edges = sample()
    one = build(tmp_path / "1", nodes, edges)
    random.Random(3).shuffle(nodes)
    two = build(tmp_path / "2", nodes, edges[::-1])
    for figures in (one[1], two[1]):
        del figures["encoding_seconds"]
    assert one == two
    for name in ("communities.parquet", VECTORS, VECTOR_IDS):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_the_hash_seed_does_not_matter(tmp_path: Path) -> None:
    graph = write(tmp_path, *sample())
    code = (
        "import sys; from pathlib import Path; from srrag.step import Place;"
        "from srrag.organize.communities import DetectCommunities;"
        "DetectCommunities().build({'entities': [Path(sys.argv[1])]}, Path(sys.argv[2]), Place())"
    )
    written = []
    for seed in ("1", "2"):
        out = tmp_path / seed
        out.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code, graph, out], check=True, env=environment)
        written.append((out / "communities.parquet").read_bytes())
    assert written[0] == written[1]


def test_the_vectors_of_the_names_stay(tmp_path: Path) -> None:
    nodes, edges = sample()
    build(tmp_path, nodes, edges)
    vectors = np.load(tmp_path / VECTORS)
    ids = pq.read_table(tmp_path / VECTOR_IDS)["entity_id"].to_pylist()
    assert vectors.dtype == np.float16
    assert ids == sorted(node[0] for node in nodes if node[2] != "dose")
    name = {node[0]: node[1] for node in nodes}
    expected = load(Encoder()).encode([name[id_] for id_ in ids])
    np.testing.assert_allclose(vectors.astype(np.float32), expected, atol=1e-3)


def test_a_cap_drops_none(tmp_path: Path) -> None:
    nodes, edges = sample()
    found, figures = build(tmp_path, nodes, edges, DetectCommunities(max_communities=1))
    assert found.keys() == {node[0] for node in nodes}
    assert figures["communities"] == 1


def test_an_empty_graph(tmp_path: Path) -> None:
    assert build(tmp_path, [], [])[0] == {}


def test_an_edge_to_no_entity_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"edges.parquet: 'nobody' is no entity_id"):
        build(tmp_path, [("a", "pain", "Outcome")], [("relation", "a", "affects", "nobody")])


@pytest.mark.parametrize("wrong", [{"semantic_weight": -1.0}, {"max_communities": 0}])
def test_settings_without_meaning_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        DetectCommunities(**wrong)  # type: ignore[arg-type]
