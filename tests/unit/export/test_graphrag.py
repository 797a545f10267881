from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srrag.export.graphrag import distinct, mentioned, write_graphrag
from tests.unit.export.graphs import LINKS, NODES, TITLES, Written, key

# The columns that GraphRAG 3.3 writes, in their order.
TABLES = {
    "entities": "id human_readable_id title type description text_unit_ids frequency degree",
    "relationships": "id human_readable_id source target description weight combined_degree "
    "text_unit_ids",
    "communities": "id human_readable_id community level parent children title entity_ids "
    "relationship_ids text_unit_ids period size",
    "community_reports": "id human_readable_id community level parent children title summary "
    "full_content rank rating_explanation findings full_content_json period size",
    "text_units": "id human_readable_id text n_tokens document_id entity_ids relationship_ids "
    "covariate_ids",
    "documents": "id human_readable_id title text text_unit_ids creation_date raw_data",
}


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
    assert f"daily (frequency) ({key('dose')[:6]})" in titles


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
        assert unit["n_tokens"] == 18, "of words and marks, two of them d and ##1"
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


def test_communities_and_their_reports_say_what_the_tree_says(tables) -> None:
    titles = {row["id"]: row["title"] for row in tables["communities"]}
    assert titles == {
        key("left"): f"Exercise ({key('left')[:6]})",
        key("right"): f"Exercise ({key('right')[:6]})",
        key("single"): "Å",
    }
    reports = {row["id"]: row for row in tables["community_reports"]}
    assert set(reports) == {key("left"), key("right")}, "of the third nothing is said"
    left, right = reports[key("left")], reports[key("right")]
    assert left["full_content"] == f"# {left['title']}\n\nIt helps."
    assert (left["summary"], left["title"]) == ("It helps.", titles[key("left")])
    assert (left["rank"], right["rank"]) == (8.0, 10.0)
    numbers = {row["id"]: row["community"] for row in tables["communities"]}
    assert left["community"] == numbers[key("left")]
    assert json.loads(left["full_content_json"])["rating"] == left["rank"]


def test_columns_are_those_that_graphrag_writes(written: Written, tmp_path: Path) -> None:
    write_graphrag(written.graph, written.texts, tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == set(TABLES)
    for name, columns in TABLES.items():
        assert pq.read_schema(tmp_path / f"{name}.parquet").names == columns.split()


def test_graphrags_own_readers_take_every_table(written: Written, tmp_path: Path) -> None:
    """Only where GraphRAG (3.3) is installed, which this project does not need."""
    schemas = pytest.importorskip("graphrag.data_model.schemas")
    typed = pytest.importorskip("graphrag.data_model.dfs")
    adapters = pytest.importorskip("graphrag.query.indexer_adapters")
    pandas = pytest.importorskip("pandas")
    write_graphrag(written.graph, written.texts, tmp_path)
    frames = {}
    for name in TABLES:
        frame = pandas.read_parquet(tmp_path / f"{name}.parquet")
        assert list(frame.columns) == getattr(schemas, f"{name.upper()}_FINAL_COLUMNS")
        frames[name] = getattr(typed, f"{name}_typed")(frame)
    communities, reports = frames["communities"], frames["community_reports"]
    found = {
        "entities": adapters.read_indexer_entities(frames["entities"], communities, 0),
        "relationships": adapters.read_indexer_relationships(frames["relationships"]),
        "text_units": adapters.read_indexer_text_units(frames["text_units"]),
        "community_reports": adapters.read_indexer_reports(reports, communities, 0),
    }
    for name, items in found.items():
        assert {item.id for item in items} == set(frames[name]["id"]), name
    read = adapters.read_indexer_communities(communities, reports)
    assert [item.id for item in read] == list(reports["id"])


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
        "entities": 1, "edges": 0, "communities": 1, "reports": 0, "text_units": 1,
        "documents": 1,
    }  # fmt: skip


def test_lists_of_groups_that_lack_items_are_empty() -> None:
    pairs = distinct(np.array([3, 1, 3, 1]), np.array([2, 0, 0, 0]))
    names = pa.array(["zero", "one", "two"])
    assert pairs.lists(0, 5, names).to_pylist() == [[], ["zero"], [], ["zero", "two"], []]
    assert pairs.lists(2, 4, names).to_pylist() == [[], ["zero", "two"]]


def test_swapped_and_grouped() -> None:
    pairs = distinct(np.array([0, 1, 2]), np.array([5, 5, 6]))
    assert pairs.swapped().items.tolist() == [0, 1, 2]
    upper = pairs.grouped_by(np.array([7, 7, -1]))
    assert (upper.groups.tolist(), upper.items.tolist()) == ([7], [5])


def test_no_pairs() -> None:
    none = distinct(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert none.lists(0, 2, pa.array([], pa.string())).to_pylist() == [[], []]


def test_a_mention_of_an_unknown_unit_is_named() -> None:
    mention = pa.chunked_array([[[{"unit_id": "u1"}], [{"unit_id": "gone"}]]])
    rows, units = mentioned(np.array([4, 9]), mention, pa.array(["gone", "u1"]))
    assert (rows.tolist(), units.tolist()) == ([4, 9], [1, 0])
    with pytest.raises(ValueError, match="unit gone"):
        mentioned(np.array([4, 9]), mention, pa.array(["u1"]))
