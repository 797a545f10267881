from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srrag.core.schema import EDGES, ENTITIES
from srrag.graph.facts import ENDS, LINKS
from srrag.graph.partition import group_ends, group_links, ungroup

PLACE = {"doc_id": "d", "unit_id": "u", "char_start": 0, "char_end": 1}


def ends(*names: str, entity_id: str = "e") -> pa.Table:
    rows = [{"entity_id": entity_id, "name": name, "type": "Drug", **PLACE} for name in names]
    return pa.Table.from_pylist(rows, schema=ENDS)


@pytest.mark.parametrize(
    ("forms", "name"),
    [
        (["Knee Brace", "knee brace", "Knee Brace"], "Knee Brace"),
        (["knee  brace", "Knee brace"], "Knee brace"),
        (["knee brace", "Knee brace"], "Knee brace"),
        (["ba", "c", "ab", "ba", "ab"], "ab"),
    ],
)
def test_the_name_is_the_commonest_then_the_shortest_then_the_first(
    forms: list[str], name: str
) -> None:
    assert group_ends(ends(*forms))["name"].to_pylist() == [name]
    assert group_ends(ends(*forms[::-1]))["name"].to_pylist() == [name]


def test_each_mention_keeps_its_form_and_place() -> None:
    table = group_ends(ends("B", "a"))
    assert table["mentions"].to_pylist() == [
        [{"name": "B", **PLACE}, {"name": "a", **PLACE}],
    ]


def test_no_mention_is_an_empty_table() -> None:
    assert group_ends(ENDS.empty_table()).equals(ENTITIES.empty_table())
    assert group_links(LINKS.empty_table()).equals(EDGES.empty_table())


IDS = st.sampled_from("abcd")
SPOT = st.tuples(IDS, st.sampled_from("xyz"), st.sampled_from("uv"), st.integers(0, 3))
ENDS_OF = st.lists(st.tuples(SPOT, st.sampled_from(["Aa", "aa", "a a"])), max_size=12)
LINKS_OF = st.lists(st.tuples(SPOT, st.sampled_from([0.25, 0.5])), max_size=12)


def places(spot: tuple[str, str, str, int]) -> dict[str, object]:
    _, document, unit, start = spot
    return {"doc_id": document, "unit_id": unit, "char_start": start, "char_end": start + 1}


@settings(deadline=None)
@given(rows=ENDS_OF, cut=st.integers(0, 12), seed=st.integers(0, 9))
def test_grouping_entities_again_with_more_is_grouping_all_at_once(
    rows: list[tuple[tuple[str, str, str, int], str]], cut: int, seed: int
) -> None:
    made = [
        {"entity_id": spot[0], "name": name, "type": f"type {spot[0]}", **places(spot)}
        for spot, name in rows
    ]
    whole = group_ends(pa.Table.from_pylist(made, schema=ENDS))
    random.Random(seed).shuffle(made)
    first = group_ends(pa.Table.from_pylist(made[:cut], schema=ENDS))
    rest = pa.Table.from_pylist(made[cut:], schema=ENDS)
    assert group_ends(pa.concat_tables([rest, ungroup(first, ENDS)])).equals(whole)
    assert whole["entity_id"].to_pylist() == sorted({spot[0] for spot, _ in rows})
    assert len(ungroup(whole, ENDS)) == len(rows)


@settings(deadline=None)
@given(rows=LINKS_OF, cut=st.integers(0, 12), seed=st.integers(0, 9))
def test_grouping_edges_again_with_more_is_grouping_all_at_once(
    rows: list[tuple[tuple[str, str, str, int], float]], cut: int, seed: int
) -> None:
    made = [
        {"edge_id": spot[0], "kind": "relation", "head_id": f"h{spot[0]}", "relation": "r",
         "tail_id": f"t{spot[0]}", "confidence": confidence, **places(spot)}
        for spot, confidence in rows
    ]  # fmt: skip
    whole = group_links(pa.Table.from_pylist(made, schema=LINKS))
    random.Random(seed).shuffle(made)
    first = group_links(pa.Table.from_pylist(made[:cut], schema=LINKS))
    rest = pa.Table.from_pylist(made[cut:], schema=LINKS)
    assert group_links(pa.concat_tables([rest, ungroup(first, LINKS)])).equals(whole)
    for edge in whole.to_pylist():
        assert edge["confidence"] == max(m["confidence"] for m in edge["mentions"])
