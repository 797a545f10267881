from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srrag.graph import partition
from srrag.graph.entities import revised
from srrag.graph.facts import ENDS
from srrag.graph.partition import SIDES, group_ends, write_rows

SIDE = SIDES["entities"]


def ends(document: str, entities: list[int]) -> pa.Table:
    """Mentions of these entities by one document, in different letters."""
    rows = [
        {
            "entity_id": f"{entity:02d}", "name": "aA"[(entity + len(document)) % 2],
            "type": f"t{entity}", "doc_id": document, "unit_id": f"{document}-{n}",
            "char_start": n, "char_end": n + 1,
        }
        for n, entity in enumerate(entities)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=ENDS)


def of(documents: dict[str, list[int]]) -> pa.Table:
    return pa.concat_tables([ENDS.empty_table(), *(ends(d, es) for d, es in documents.items())])


def tables(former: Path, gone: list[str], came: pa.Table) -> list[pa.Table]:
    return list(revised(former, SIDE, pa.array(gone, pa.string()), came))


GRAPHS = st.dictionaries(
    st.sampled_from(["d", "dd", "ddd", "e"]), st.lists(st.integers(0, 20), max_size=9)
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=GRAPHS, gone=st.sets(st.sampled_from(["d", "dd", "x"])), came=GRAPHS)
def test_a_revised_table_is_that_of_the_documents_left_and_those_that_came(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: dict[str, list[int]],
    gone: set[str],
    came: dict[str, list[int]],
) -> None:
    monkeypatch.setattr(partition, "_GROUP_ROWS", 3)
    stay = {d: entities for d, entities in before.items() if d not in gone}
    new = {f"new {d}": entities for d, entities in came.items()}
    former = tmp_path / "former.parquet"
    write_rows(former, [group_ends(of(before))], "entities")
    found = pa.concat_tables(tables(former, sorted(gone), of(new)))
    assert found.equals(group_ends(of({**stay, **new})))


def test_an_entity_goes_with_its_last_mention_and_others_keep_all_of_theirs(tmp_path: Path) -> None:
    write_rows(tmp_path / "f", [group_ends(of({"d": [1, 2], "e": [2, 3]}))], "entities")
    (table,) = tables(tmp_path / "f", ["d"], ENDS.empty_table())
    assert table["entity_id"].to_pylist() == ["02", "03"]
    assert [m["doc_id"] for ms in table["mentions"].to_pylist() for m in ms] == ["e", "e"]


def test_the_name_is_chosen_again_from_the_forms_that_are_left(tmp_path: Path) -> None:
    graph = {"d": [1, 1, 1], "ee": [1, 1]}
    write_rows(tmp_path / "f", [group_ends(of(graph))], "entities")
    (before,) = tables(tmp_path / "f", [], ENDS.empty_table())
    (after,) = tables(tmp_path / "f", ["d"], ENDS.empty_table())
    assert before["name"].to_pylist() != after["name"].to_pylist()


def test_a_graph_grows_from_nothing(tmp_path: Path) -> None:
    write_rows(tmp_path / "f", [], "entities")
    came = of({"d": random.Random(1).sample(range(20), 9)})
    (table,) = tables(tmp_path / "f", [], came)
    assert table.equals(group_ends(came))
