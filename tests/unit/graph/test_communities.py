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

from srrag.algo.affinity import Basis
from srrag.algo.communities import DetectionState
from srrag.core.schema import COMMUNITIES, EDGES, ENTITIES
from srrag.core.spec import segment_id
from srrag.core.step import Place, PreviousVersion
from srrag.graph.communities import DETECTION, DetectCommunities, read_communities, resume, save
from srrag.graph.name_vectors import EncodeNames
from srrag.graph.nodes import Nodes
from srrag.model.encoder import Encoder

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


def encoded(folder: Path, graph: Path) -> dict[str, list[Path]]:
    """The inputs of a detection: a graph and the vectors of its names."""
    (names := folder / "names").mkdir()
    EncodeNames().build({"entities": [graph]}, names, Place())
    return {"entities": [graph], "names": [names]}


def build(
    folder: Path, nodes: list[Node], edges: list[Edge], step: DetectCommunities | None = None
) -> tuple[dict[str, str], dict[str, float | int | str]]:
    """The community of each node, and the figures."""
    inputs = encoded(folder, write(folder, nodes, edges))
    figures = (step or DetectCommunities()).build(inputs, folder, Place())
    table = read_communities(folder)
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
    assert one == two
    for name in ("communities.parquet", "names/vectors-00000.npy"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


@pytest.mark.slow
def test_the_hash_seed_does_not_matter(tmp_path: Path) -> None:
    graph = write(tmp_path, *sample())
    (names,) = encoded(tmp_path, graph)["names"]
    code = (
        "import sys; from pathlib import Path; from srrag.core.step import Place;"
        "from srrag.graph.communities import DetectCommunities;"
        "DetectCommunities().build({'entities': [Path(sys.argv[1])], 'names': [Path(sys.argv[2])]},"
        "Path(sys.argv[3]), Place())"
    )
    written = []
    for seed in ("1", "2"):
        out = tmp_path / seed
        out.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code, graph, names, out], check=True, env=environment)
        written.append((out / "communities.parquet").read_bytes())
    assert written[0] == written[1]


def test_an_empty_graph(tmp_path: Path) -> None:
    assert build(tmp_path, [], [])[0] == {}


def test_an_edge_to_no_entity_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"edges.parquet: 'nobody' is no entity_id"):
        build(tmp_path, [("a", "pain", "Outcome")], [("relation", "a", "affects", "nobody")])


def test_a_drift_without_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match="max_drift"):
        DetectCommunities(max_drift=1.5)


def wide(num_topics: int) -> tuple[list[Node], list[Edge]]:
    """Topics of 12 entities with two relations each inside, one attribute an entity."""
    rng = random.Random(7)
    words = ["ankle", "migraine", "asthma", "cornea", "kidney", "tendon", "scalp", "pelvis"]
    parts = ["pain", "swelling", "function", "injury", "surgery", "imaging", "exercise", "cost",
             "diagnosis", "recurrence", "brace", "questionnaire"]  # fmt: skip
    nodes: list[Node] = []
    edges: list[Edge] = []
    for topic in words[:num_topics]:
        for place, part in enumerate(parts):
            name = f"{topic}{place:02}"
            nodes += [(name, f"{topic} {part}", "Condition"), (f"{name}'s", "dose: 5", "dose")]
            edges.append(("attribute", name, "has_attribute", f"{name}'s"))
            for other in rng.sample(range(len(parts)), 3):
                if other != place:
                    edges.append(("relation", name, "affects", f"{topic}{other:02}"))
    return nodes, edges


def updated(
    folder: Path, nodes: list[Node], edges: list[Edge], former: Path,
    step: DetectCommunities | None = None,
) -> tuple[dict[str, str], dict[str, float | int | str]]:  # fmt: skip
    """The communities after an update, and its figures."""
    inputs = encoded(folder, write(folder, nodes, edges))
    before = PreviousVersion(former, frozenset())
    figures = (step or DetectCommunities()).update(inputs, folder, Place(), before)
    table = read_communities(folder)
    assert table.schema.equals(COMMUNITIES)
    assert table["entity_id"].to_pylist() == sorted(node[0] for node in nodes)
    found = dict(zip(*table.to_pydict().values(), strict=True))
    for community in set(found.values()):
        assert community == segment_id(sorted(n for n in found if found[n] == community))
    return found, figures


def members(found: dict[str, str]) -> set[frozenset[str]]:
    return {frozenset(n for n in found if found[n] == c) for c in set(found.values())}


def test_an_update_places_what_is_new_and_keeps_the_other_communities(tmp_path: Path) -> None:
    nodes, edges = wide(8)
    before, _ = build(tmp_path / "before", nodes, edges)
    nodes = [*nodes, ("new", "ankle instability", "Condition"), ("new's", "dose: 9", "dose")]
    edges = [*edges, ("attribute", "new", "has_attribute", "new's")]
    edges += [("relation", "new", "affects", f"ankle0{n}") for n in range(2)]
    found, figures = updated(tmp_path / "after", nodes, edges, tmp_path / "before")
    assert found["new"] == found["new's"] == found["ankle00"]
    changed = {name for name in before if before[name] != found[name]}
    assert changed and all(name.startswith("ankle") for name in changed)
    assert figures["placed"] == 3
    assert figures["communities_kept"] == len(set(found.values()) & set(before.values())) > 0
    again, _ = updated(tmp_path / "again", nodes, edges[::-1], tmp_path / "before")
    assert again == found, "the same from the same version before"


def test_an_update_with_names_of_another_encoder_is_a_build(tmp_path: Path) -> None:
    nodes, edges = wide(4)
    build(tmp_path / "before", nodes, edges)
    graph = write(tmp_path / "after", nodes, edges)
    (names := tmp_path / "after" / "names").mkdir()
    other = EncodeNames(encoder=Encoder(max_tokens=99))
    other.build({"entities": [graph]}, names, Place())
    inputs, former = {"entities": [graph], "names": [names]}, tmp_path / "before"
    step = DetectCommunities()
    (former / "again").mkdir()
    same = step.update(encoded(former / "again", graph), former / "again", Place(),
                       PreviousVersion(former, frozenset()))  # fmt: skip
    found = step.update(inputs, tmp_path / "after", Place(), PreviousVersion(former, frozenset()))
    assert "drift" in same and "drift" not in found


def test_an_update_without_some_entities_keeps_nothing_of_them(tmp_path: Path) -> None:
    nodes, edges = wide(8)
    build(tmp_path / "before", nodes, edges)
    gone = {"ankle00", "ankle00's"}
    nodes = [node for node in nodes if node[0] not in gone]
    edges = [edge for edge in edges if not gone & {edge[1], edge[3]}]
    found, figures = updated(tmp_path / "after", nodes, edges, tmp_path / "before")
    assert not gone & found.keys()
    assert figures["drift"] == pytest.approx(
        (1 + int(str(figures["placed"]))) / (len(nodes) / 2 + 0.5), abs=1e-3
    )
    held = (tmp_path / "after" / DETECTION).read_bytes()
    assert not any(name.encode() in held for name in gone)


def test_an_update_of_an_update_goes_on_from_it_until_too_much_was_placed(tmp_path: Path) -> None:
    """Each adds one entity with one relation: two placed, 2 % of 97 and more; then all anew."""
    nodes, edges = wide(8)
    build(tmp_path / "0", nodes, edges)
    drifts = []
    for number in range(1, 4):
        nodes = [*nodes, (f"new{number}", f"kidney stone {number}", "Condition")]
        edges = [*edges, ("relation", f"new{number}", "affects", "kidney00")]
        step = DetectCommunities(max_drift=0.05)
        folder, former = tmp_path / f"{number}", tmp_path / f"{number - 1}"
        found, figures = updated(folder, nodes, edges, former, step)
        drifts.append(figures.get("drift"))
    assert drifts == [round(2 / 97, 4), round(4 / 98, 4), None]
    assert members(found) == members(build(tmp_path / "once", nodes, edges)[0])


def test_without_drift_every_update_is_a_build(tmp_path: Path) -> None:
    nodes, edges = wide(8)
    never = DetectCommunities(max_drift=0.0)
    last = {"pelvis11", "pelvis11's"}
    fewer = [node for node in nodes if node[0] not in last]
    inside = [edge for edge in edges if not last & {edge[1], edge[3]}]
    build(tmp_path / "before", fewer, inside, never)
    found, figures = updated(tmp_path / "after", nodes, edges, tmp_path / "before", never)
    once, same = build(tmp_path / "once", nodes, edges, never)
    assert (found, figures) == (once, same)


def test_what_did_not_change_stays_to_the_byte(tmp_path: Path) -> None:
    nodes, edges = wide(8)
    build(tmp_path / "before", nodes, edges)
    updated(tmp_path / "after", nodes, edges, tmp_path / "before")
    for name in ("communities.parquet", DETECTION):
        assert (tmp_path / "before" / name).read_bytes() == (tmp_path / "after" / name).read_bytes()


def test_a_document_has_the_mean_of_its_neighbours_vectors(tmp_path: Path) -> None:
    nodes = [
        ("a", "ankle", "t"),
        ("b", "knee", "t"),
        ("d", "1", "Document"),
        ("e", "2", "Document"),
    ]
    graph = write(
        tmp_path, nodes, [("relation", "d", "reports", "a"), ("relation", "d", "has", "b")]
    )
    found = Nodes.read(graph).with_documents(np.array([[1, 0], [0, 1], [0, 0], [0, 0]], "f4"))
    assert found[2] == pytest.approx([0.5**0.5, 0.5**0.5])
    assert found[3].tolist() == [0, 0], "none near it"


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_smallest_graphs_grow(tmp_path: Path, count: int) -> None:
    """Where all stood alone, nobody was near to anybody yet."""
    step = DetectCommunities(max_drift=1.0)
    nodes = [(f"a{n}", "knee pain", "Condition") for n in range(count)]
    build(tmp_path / "before", nodes, [], step)
    nodes = [*nodes, ("b", "knee pain, chronic", "Condition")]
    edges = [("relation", "a0", "affects", "b")]
    found, figures = updated(tmp_path / "after", nodes, edges, tmp_path / "before", step)
    assert len(found) == count + 1 and ("drift" in figures) == (count > 1)


def nodes(ids: str, edges: str, types: str = "t") -> Nodes:
    """A graph whose ids and relations are letters: "abc", "ab bc"."""
    place = {letter: row for row, letter in enumerate(ids)}
    pairs = [(place[one], place[two]) for one, two in edges.split()]
    return Nodes(
        ids=pa.array(list(ids)),
        owner=np.arange(len(ids)),
        is_core=np.ones(len(ids), bool),
        core_ids=pa.array(list(ids)),
        names=pa.array(list(ids)),
        types=np.zeros(len(ids), int),
        type_names=types.split(),
        heads=np.array([head for head, _ in pairs], int),
        tails=np.array([tail for _, tail in pairs], int),
        relations=np.zeros(len(pairs), int),
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Entities a to d, each near to the next, in two communities."""
    standing = DetectionState(
        labels=np.array([0, 0, 1, 1]),
        places=np.eye(4, dtype=np.float32),
        near=np.array([[1], [2], [3], [0]]),
        name_degrees=np.array([0.1, 0.2, 0.3, 0.4]),
        basis=Basis(np.array([[1.0], [2.0]], np.float32), np.ones((1, 1), np.float32)),
        density=0.5,
    )
    save(tmp_path / DETECTION, nodes("abcd", "ab bc cd", "age t"), standing, 3)
    return tmp_path / DETECTION


def test_what_stands_is_found_under_its_new_row(saved: Path) -> None:
    found = resume(saved, pa.chunked_array([list("abcd")]), nodes("Aabcd", "ab bc cd"))
    assert found.standing.labels.tolist() == [-1, 0, 0, 1, 1]
    assert found.standing.near[1:, 0].tolist() == [2, 3, 4, 1]
    assert found.standing.near[0].tolist() == [0], "what is new is near to nothing yet"
    assert found.standing.name_degrees == pytest.approx([0, 0.1, 0.2, 0.3, 0.4], abs=1e-6)
    assert not found.touched.any()
    assert found.drift == 3 + 1


def test_who_won_or_lost_a_relation_is_touched(saved: Path) -> None:
    ids = pa.chunked_array([list("abcd")])
    assert resume(saved, ids, nodes("abcd", "cb ab dc")).touched.tolist() == [False] * 4
    assert resume(saved, ids, nodes("abcd", "ab bc cd ab")).touched.tolist() == [1, 1, 0, 0]
    assert resume(saved, ids, nodes("abcd", "ab cd ad")).touched.tolist() == [1, 1, 1, 1]


def test_who_lost_a_neighbour_is_touched_and_near_to_it_no_more(saved: Path) -> None:
    found = resume(saved, pa.chunked_array([list("abcd")]), nodes("acd", "cd"))
    assert found.touched.tolist() == [True, True, False]
    assert found.standing.near[:, 0].tolist() == [0, 2, 0], "a is near to itself, for want of b"
    assert found.drift == 3 + 1 + 2


def test_types_keep_their_means_whatever_their_number_is_now(saved: Path) -> None:
    found = resume(saved, pa.chunked_array([list("abcd")]), nodes("abcd", "", "dose t zone"))
    assert found.standing.basis.means.tolist() == [[0], [2], [0]]
