from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.ids import segment_id
from srrag.organize.communities import DetectCommunities
from srrag.schema import COMMUNITIES, EDGES, ENTITIES, MENTION
from srrag.step import Place

Edge = tuple[str, str, int]
"""Head, tail and number of mentions."""

TRIANGLES: list[Edge] = [
    ("a", "b", 1), ("b", "c", 1), ("a", "c", 1), ("x", "y", 1), ("y", "z", 1), ("x", "z", 1),
    ("c", "x", 1),
]  # fmt: skip


def detect(
    folder: Path, entities: list[str], edges: list[Edge], **fields: float
) -> tuple[dict[str, str], dict[str, float | int | str]]:
    """The community of each entity, and the figures."""
    graph = folder / "graph"
    graph.mkdir(parents=True)
    rows = [
        {"entity_id": e, "name": e, "type": "Outcome", "mentions": []} for e in sorted(entities)
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=ENTITIES), graph / "entities.parquet")
    mention = {"unit_id": "u", "doc_id": "d", "char_start": 0, "char_end": 1}
    assert set(mention) == {field.name for field in MENTION}
    linked = [
        {
            "edge_id": f"e{n}", "kind": "relation", "head_id": head, "relation": f"r{n}",
            "tail_id": tail, "confidence": 1.0, "mentions": [mention] * count,
        }
        for n, (head, tail, count) in enumerate(edges)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(linked, schema=EDGES), graph / "edges.parquet")
    figures = DetectCommunities(**fields).build({"entities": [graph]}, folder, Place())
    table = pq.read_table(folder / "communities.parquet")
    assert table.schema.equals(COMMUNITIES)
    assert table["entity_id"].to_pylist() == sorted(entities)
    found = dict(zip(*table.to_pydict().values(), strict=True))
    assert figures["communities"] == len(set(found.values()))
    return found, figures


def test_two_triangles_and_one_alone(tmp_path: Path) -> None:
    """Modularity by hand: 6/7 of the edges inside, both halves with half the degrees: 6/7 - 1/2."""
    found, figures = detect(tmp_path, list("abcxyzq"), TRIANGLES)
    left, right, alone = segment_id("abc"), segment_id("xyz"), segment_id("q")
    assert found == {**dict.fromkeys("abc", left), **dict.fromkeys("xyz", right), "q": alone}
    assert figures == {"communities": 3, "modularity": round(6 / 7 - 1 / 2, 4)}


def test_a_graph_without_edges(tmp_path: Path) -> None:
    found, figures = detect(tmp_path, ["b", "a"], [])
    assert found == {"a": segment_id("a"), "b": segment_id("b")}
    assert figures == {"communities": 2, "modularity": 0.0}


def test_no_entity(tmp_path: Path) -> None:
    assert detect(tmp_path, [], []) == ({}, {"communities": 0, "modularity": 0.0})


def test_an_edge_from_an_entity_to_itself(tmp_path: Path) -> None:
    found, _ = detect(tmp_path, ["a", "b", "c"], [("a", "a", 2), ("b", "c", 1)])
    assert found["a"] == segment_id("a")
    assert found["b"] == found["c"] == segment_id("bc")


def test_the_order_of_edges_does_not_matter(tmp_path: Path) -> None:
    one, _ = detect(tmp_path / "1", list("abcxyz"), TRIANGLES)
    two, _ = detect(tmp_path / "2", list("abcxyz"), TRIANGLES[::-1])
    assert one == two


def test_a_finer_resolution_splits(tmp_path: Path) -> None:
    _, coarse = detect(tmp_path / "1", list("abcxyz"), TRIANGLES, resolution=0.01)
    _, fine = detect(tmp_path / "2", list("abcxyz"), TRIANGLES, resolution=5.0)
    assert coarse["communities"] == 1
    assert fine["communities"] == 6


def test_an_edge_weighs_by_its_mentions(tmp_path: Path) -> None:
    """On the path a-b-c-d the middle edge with 3 mentions against 1 and 1 holds all together."""
    entities = list("abcd")
    strong, _ = detect(tmp_path / "1", entities, [("a", "b", 1), ("b", "c", 3), ("c", "d", 1)])
    weak, _ = detect(tmp_path / "2", entities, [("a", "b", 5), ("b", "c", 3), ("c", "d", 5)])
    assert len(set(strong.values())) == 1
    assert weak["a"] == weak["b"] != weak["c"] == weak["d"]


def test_several_edges_between_two_entities_add_up(tmp_path: Path) -> None:
    """Five relations of one mention tie as one of five does, whichever way they point."""
    five: list[Edge] = [("a", "b", 1), ("b", "a", 1), ("a", "b", 1), ("b", "a", 1), ("a", "b", 1)]
    more: list[Edge] = [("c", "d", 1)] * 5
    parallel, figures = detect(tmp_path / "1", list("abcd"), [*five, ("b", "c", 3), *more])
    one: list[Edge] = [("a", "b", 5), ("b", "c", 3), ("c", "d", 5)]
    assert (parallel, figures) == detect(tmp_path / "2", list("abcd"), one)


NODES = st.sampled_from("abcdefgh")


@settings(max_examples=25, deadline=None)
@given(
    edges=st.lists(st.tuples(NODES, NODES, st.integers(1, 4)), max_size=15),
    alone=st.sets(st.sampled_from("pqrs")),
)
def test_every_entity_is_in_exactly_one_named_by_its_members(
    tmp_path_factory: pytest.TempPathFactory, edges: list[Edge], alone: set[str]
) -> None:
    folder = tmp_path_factory.mktemp("leiden")
    entities = sorted({e for head, tail, _ in edges for e in (head, tail)} | alone)
    found, figures = detect(folder / "1", entities, edges)
    assert (found, figures) == detect(folder / "2", entities, edges)
    for community in set(found.values()):
        members = sorted(e for e in found if found[e] == community)
        assert community == segment_id(members)
    assert all(found[e] == segment_id(e) for e in alone)
