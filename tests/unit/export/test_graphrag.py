from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.export.graphrag import unique_titles, write_graphrag
from tests.unit.export.graphs import LINKS, NODES, TITLES, Written, key

TABLES = ("entities", "relationships", "communities", "text_units", "documents")


@pytest.fixture(scope="module")
def tables(
    written: Written, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[dict[str, object]]]:
    folder = tmp_path_factory.mktemp("graphrag")
    write_graphrag(written.graph, written.texts, folder)
    return {name: pq.read_table(folder / f"{name}.parquet").to_pylist() for name in TABLES}


def test_relationships_name_titles_that_no_two_entities_share(tables) -> None:
    titles = [row["title"] for row in tables["entities"]]
    assert len(set(titles)) == len(titles) == len(NODES)
    assert len(tables["relationships"]) == len(LINKS)
    for row in tables["relationships"]:
        assert {row["source"], row["target"]} <= set(titles)
    assert {"exercise (Intervention)", "exercise (Outcome)"} <= set(titles)
    assert f"daily (frequency) ({key('dose')})" in titles


def test_ids_resolve_in_both_directions(tables) -> None:
    entities = {row["id"]: row for row in tables["entities"]}
    edges = {row["id"]: row for row in tables["relationships"]}
    units = {row["id"]: row for row in tables["text_units"]}
    for row in [*entities.values(), *edges.values()]:
        assert row["text_unit_ids"]
        assert set(row["text_unit_ids"]) <= set(units)
    for unit_id, unit in units.items():
        held = {e for e, row in entities.items() if unit_id in row["text_unit_ids"]}
        assert set(unit["entity_ids"]) == held
        held = {e for e, row in edges.items() if unit_id in row["text_unit_ids"]}
        assert set(unit["relationship_ids"]) == held
        assert unit["document_ids"] == [unit["document_id"]]
    documents = {row["id"]: row for row in tables["documents"]}
    assert set(documents) == {key(name) for name in TITLES}
    for doc_id, row in documents.items():
        assert row["text_unit_ids"] == [
            u for u, unit in units.items() if unit["document_id"] == doc_id
        ]


def test_degrees_and_frequencies_count(tables) -> None:
    quoted = next(row for row in tables["entities"] if row["id"] == key("quoted"))
    assert (quoted["frequency"], quoted["degree"]) == (2, 5)
    edge = next(r for r in tables["relationships"] if r["id"] == key("quoted affects script"))
    assert (edge["weight"], edge["combined_degree"]) == (1.0, 5 + 3)
    said = "Intervention; mentions: 3; documents: 2 (grade A: 1) (grade C: 1)"
    assert quoted["description"] == said


def test_a_community_holds_its_members_and_what_is_wholly_inside(tables) -> None:
    found = {row["id"]: row for row in tables["communities"]}
    assert set(found) == {key("left"), key("right"), key("single")}
    left = found[key("left")]
    assert set(left["entity_ids"]) == {key(n) for n in ("guide", "twin", "dose", "control")}
    assert left["size"] == 4
    inside = {"guide uses_intervention twin", "twin has_attribute dose", "control treated_by twin"}
    assert set(left["relationship_ids"]) == {key(name) for name in inside}
    assert set(left["text_unit_ids"]) == {key("chunk d1"), key("chunk d3")}
    assert found[key("single")]["relationship_ids"] == []
    assert [row["human_readable_id"] for row in tables["communities"]] == [0, 1, 2]


def test_pandas_opens_every_table(written: Written, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    write_graphrag(written.graph, written.texts, tmp_path)
    frames = {name: pandas.read_parquet(tmp_path / f"{name}.parquet") for name in TABLES}
    joined = frames["relationships"].merge(
        frames["entities"], left_on="source", right_on="title", validate="many_to_one"
    )
    assert len(joined) == len(LINKS)


def test_a_selection_takes_only_its_own_texts(written: Written, tmp_path: Path) -> None:
    ids = written.graph.ids.to_pylist()
    part = written.graph.select(np.array([ids.index(key("alone"))]))
    counts = write_graphrag(part, written.texts, tmp_path)
    assert counts == {
        "entities": 1, "edges": 0, "communities": 1, "text_units": 1, "documents": 1,
    }  # fmt: skip


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "a (t)", "b", "a (t) (0)", "a (0)"]), st.sampled_from("tu")
        ),
        max_size=12,
    )
)
@settings(deadline=None)
def test_titles_are_unique_for_any_names(rows: list[tuple[str, str]]) -> None:
    names, types = ([row[n] for row in rows] for n in (0, 1))
    ids = [str(n) for n in range(len(rows))]
    columns = (pa.chunked_array([pa.array(c, pa.string())]) for c in (names, types, ids))
    titles = unique_titles(*columns).to_pylist()
    assert len(set(titles)) == len(rows)
    assert all(title.startswith(name) for title, name in zip(titles, names, strict=True))
