from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.export.graph import open_graph, unique_titles
from tests.unit.export.graphs import LINKS, NODES, Written, key


def rows_of(written: Written) -> dict[str, dict[str, object]]:
    tables = [table for _, table in written.graph.entity_batches()]
    return {row["entity_id"]: row for row in pa.concat_tables(tables).to_pylist()}


def test_counts_are_of_mentions_and_of_distinct_documents_by_grade(written: Written) -> None:
    quoted = rows_of(written)[key("quoted")]
    assert (quoted["mentions"], quoted["documents"]) == (3, 2)
    assert (quoted["grade_A"], quoted["grade_C"], quoted["grade_none"]) == (1, 1, 0)
    assert quoted["best_grade"] == "A"
    alone = rows_of(written)[key("alone")]
    assert (alone["best_grade"], alone["grade_none"]) == ("", 1)


def test_a_document_is_shown_by_its_title(written: Written) -> None:
    assert rows_of(written)[key("guide")]["name"] == "A guideline"


def test_an_edge_is_selected_with_both_its_ends(written: Written) -> None:
    graph = written.graph
    ids = graph.ids.to_pylist()
    chosen = {key("quoted"), key("script")}
    part = graph.select(np.array([ids.index(item) for item in chosen]))
    (rows, edges), *_ = part.edge_batches()
    assert sorted(edges["relation"].to_pylist()) == ["affects", "worsens"]
    assert len(rows) == 2
    assert not part.whole
    assert sum(t.num_rows for _, t in part.entity_batches()) == 2


def test_an_empty_selection_still_has_its_columns(written: Written) -> None:
    part = written.graph.select(np.zeros(0, np.int64))
    ((_, entities),) = part.entity_batches()
    ((_, edges),) = part.edge_batches()
    assert (entities.num_rows, edges.num_rows) == (0, 0)
    assert "best_grade" in entities.column_names


def test_values_of_attributes_are_known(written: Written) -> None:
    graph = written.graph
    values = np.asarray(graph.ids)[graph.attribute_nodes()]
    assert set(values) == {key("dose"), key("other dose")}


def test_without_communities_or_units_there_is_still_a_graph(written: Written) -> None:
    graph = open_graph({"entities": written.artifacts["entities"]})
    ((_, table),) = graph.entity_batches()
    assert set(table["community"].to_pylist()) == {""}
    ((_, named),) = graph.entity_batches(topics=True)
    assert set(named["community_name"].to_pylist()) == {""}
    assert "grade_A" not in table.column_names
    assert table.num_rows == len(NODES)
    assert len(graph.heads) == len(LINKS)


def test_a_build_without_a_graph_is_named(written: Written) -> None:
    with pytest.raises(ValueError, match="has no graph; `srrag build … plan=graph` adds it"):
        open_graph({"units": written.artifacts["units"]})


def test_an_edge_to_nowhere_is_an_error(written: Written, tmp_path) -> None:
    entities = pq.read_table(written.artifacts["entities"] / "entities.parquet")
    edges = pq.read_table(written.artifacts["entities"] / "edges.parquet")
    pq.write_table(entities.slice(1), tmp_path / "entities.parquet")
    pq.write_table(edges, tmp_path / "edges.parquet")
    with pytest.raises(ValueError, match="is not an entity"):
        open_graph({"entities": tmp_path})


def titled(names: list[str], hints: list[str], ids: list[str]) -> list[str]:
    columns = (pa.chunked_array([pa.array(c, pa.string())]) for c in (names, hints, ids))
    titles: list[str] = unique_titles(*columns).to_pylist()
    return titles


def test_a_title_is_no_longer_than_it_takes() -> None:
    ids = ["0034e4" + "a" * 26, "0034e5" + "a" * 26, "0034e6" + "a" * 26, "0034e7" + "a" * 26]
    names, types = ["daily", "daily", "weekly", "daily"], ["dose", "dose", "dose", "rest"]
    assert titled(names, types, ids) == [
        "daily (dose) (0034e4)", "daily (dose) (0034e5)", "weekly", "daily (rest)",
    ]  # fmt: skip


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
    ids = [f"{n:032}" for n in range(len(rows))]
    titles = titled(names, types, ids)
    assert len(set(titles)) == len(rows)
    assert all(title.startswith(name) for title, name in zip(titles, names, strict=True))
